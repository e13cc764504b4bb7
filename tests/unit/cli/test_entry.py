"""Ends of commands: an unread pipe, a full disk, unexpected errors; groups alone."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cosched.cli.commands import cosched
from cosched.cli.entry import run_cli
from cosched.cli.measure.measuring import measuring
from tests.places import ROOT

GROUPS = [
    (),
    ("lab",),
    ("sim",),
    ("config",),
    ("cluster",),
    ("shim",),
    ("sim", "symbiosis"),
]
(OLDEST,) = re.findall(r'"click>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
#: Makes each group alone print its help, with the click in the folder of the first word.
EACH_GROUP = """
import sys
sys.path.insert(0, sys.argv[1])
import click
from cosched.cli.entry import run_cli
from cosched.cli.commands import cosched
from cosched.cli.measure.measuring import measuring
assert click.__file__.startswith(sys.argv[1])
for words in {groups}:
    print(run_cli(cosched, words), flush=True)
    print("----", flush=True)
"""


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_alone_prints_its_help(words):
    found = CliRunner().invoke(cosched, words)
    assert (found.exit_code, found.output) == (
        0,
        CliRunner().invoke(cosched, [*words, "--help"]).output,
    )
    assert len(found.output.splitlines()) > 8


@pytest.mark.parametrize("wanted", [f"click=={OLDEST}", "click"], ids=["oldest", "newest"])
def test_a_group_alone_prints_its_help_with_each_click(wanted):
    folder = ROOT / ".cache" / wanted
    if not (folder / "click").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        pip += ["--retries", "0", "--target", folder, wanted]
        if subprocess.run(pip, check=False, capture_output=True).returncode:
            pytest.skip(f"pip cannot install {wanted} here")
    done = subprocess.run(
        [sys.executable, "-c", EACH_GROUP.format(groups=GROUPS), folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    pages = done.stdout.split("----\n")
    assert pages.pop() == ""
    assert len(pages) == len(GROUPS)
    for page in pages:
        assert page.startswith("Usage: ")
        assert page.splitlines()[-1] == "0"
        assert len(page.splitlines()) > 8
        assert max(map(len, page.splitlines())) <= 80


@click.command("fails")
def fails() -> None:
    raise KeyError("two\nlines \x1b[31m")


def test_an_unexpected_error_is_one_line_and_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert run_cli(fails, []) == 1
    details = tmp_path / "cosched" / "last-error.txt"
    line = capsys.readouterr().err
    assert line.startswith("fails: unexpected error: KeyError: ")
    assert line.endswith(f"; details are in {details}\n")
    assert len(line.splitlines()) == 1
    assert "Traceback" in details.read_text()
    assert details.stat().st_mode & 0o777 == 0o600


def test_a_closed_folder_is_one_line(capsys):
    @click.command("reads")
    def reads() -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/root/run/domain")

    assert run_cli(reads, []) == 1
    assert capsys.readouterr().err == "reads: /root/run/domain: Permission denied\n"


def test_an_unexpected_error_without_a_place_for_details(monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert run_cli(fails, []) == 1
    line = capsys.readouterr().err
    assert "; details cannot be written: " in line
    assert len(line.splitlines()) == 1


def test_a_command_in_a_lost_directory_is_one_line(tmp_path):
    words = f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && exec "
    words += f"{sys.executable} -m cosched.cli.main status --run-dir x"
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["bash", "-c", words], capture_output=True, text=True, check=False, env=os.environ
    )
    assert done.stderr == "cosched: the working directory is gone; change it\n"
    assert done.returncode == 1


def test_an_unread_pipe_is_the_end_by_sigpipe():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [Path(sys.executable).parent / "cosched", "--help"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [Path(sys.executable).parent / "cosched", "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    problem = b"cosched: standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, problem)


@pytest.mark.parametrize(("number", "status"), [(None, 130), (signal.SIGTERM, 143)])
def test_interrupted_command_ends_as_a_shell_reports_its_signal(
    number: int | None, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command("mine")
    def mine() -> None:
        raise KeyboardInterrupt(*(() if number is None else (number,)))

    assert run_cli(mine, ()) == status
    assert capsys.readouterr().err.strip() == "mine: interrupted"


def test_interrupted_bench_names_the_file_with_its_finished_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "runs.jsonl"
    store.touch()
    with pytest.raises(KeyboardInterrupt), measuring(store):
        os.kill(os.getpid(), signal.SIGHUP)
    expected = f"{store} has the finished runs: the same command continues\n"
    assert capsys.readouterr().err == expected
