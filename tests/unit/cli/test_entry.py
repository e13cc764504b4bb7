"""Ends of commands: an unread pipe, a full disk, unexpected errors; groups alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cosched.cli.entry import run_cli
from cosched.cli.main import cosched
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
CLICKS = ["8.1.0", "newest"]


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_a_group_alone_prints_its_help(words):
    found = CliRunner().invoke(cosched, words)
    assert (found.exit_code, found.output) == (
        0,
        CliRunner().invoke(cosched, [*words, "--help"]).output,
    )
    assert len(found.output.splitlines()) > 8


@pytest.mark.long
@pytest.mark.parametrize("version", CLICKS)
def test_a_group_alone_prints_its_help_with_each_click(version):
    folder = ROOT / ".cache" / f"click-{version}"
    if not (folder / "click").exists():
        wanted = "click" if version == "newest" else f"click=={version}"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
        subprocess.run([*pip, "--target", folder, wanted], check=True)
    for words in GROUPS:
        script = f"import sys; sys.path.insert(0, {str(folder)!r}); import click; "
        script += "assert click.__file__.startswith(sys.path[0]); "
        script += "from cosched.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: ")
        assert len(done.stdout.splitlines()) > 8


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
