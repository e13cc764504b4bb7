"""The command lines of all benchmarks: each documented one is understood."""

import importlib
import re
import shlex
import subprocess
import sys

import pytest

from benchmarks.experiment import Bench
from benchmarks.micro import switch
from benchmarks.sim import accasim
from tests.places import ROOT

LINE = re.compile(r"(?:scripts/dev bench (\w+)|-m (benchmarks\.experiments\.\w+)\S*)(.*)")
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]


class ParsedError(Exception):
    """Ends a benchmark when its command line is parsed."""


@pytest.fixture
def only_parsed(monkeypatch):
    parse = Bench.parse

    def parsed(self, words=None):
        parse(self, words)
        raise ParsedError

    monkeypatch.setattr(Bench, "parse", parsed)


def module_of(name):
    """The module of ``scripts/dev bench NAME``, found as the script finds it."""
    patterns = (f"*/{name}.py", f"*/{name}/__main__.py", f"*/*/{name}.py")
    paths = [path for p in patterns for path in (ROOT / "benchmarks").glob(p)]
    (path,) = paths
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def names():
    done = subprocess.run(
        [ROOT / "scripts" / "dev", "bench"], capture_output=True, text=True, check=False
    )
    return done.stderr.rpartition(": ")[2].split()


def documented():
    for page in PAGES:
        for line in page.read_text().splitlines():
            if found := LINE.match(line.strip().removeprefix(".venv/bin/python ")):
                name, module, words = found.groups()
                if ".results" not in line:  # makes a page of several folders
                    yield name, module, words


def test_every_benchmark_has_a_command_line(only_parsed, monkeypatch, capsys):
    found = names()
    assert {"hold_yield", "nodes_lab", "startup_live", "switch", "accasim"} < set(found)
    assert "__main__" not in found
    for name in found:
        monkeypatch.setattr("sys.argv", [name, "--help"])
        with pytest.raises(SystemExit) as ended:
            importlib.import_module(module_of(name)).main()
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: scripts/dev bench {name} ")


@pytest.mark.parametrize(("name", "module", "words"), list(documented()))
def test_documented_command_is_understood(name, module, words, only_parsed, monkeypatch):
    module = f"{module}.__main__" if module else module_of(name)
    monkeypatch.setattr("sys.argv", [name, *shlex.split(words)])
    with pytest.raises(ParsedError):
        importlib.import_module(module).main()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("throughput", "--seconds 0"),
        ("observing", "--window nan"),
        ("watchers", "--seconds -1"),
        ("nodes", "--out . --work 0"),
        ("symbiosis", "table1 --out . --seconds inf"),
        ("pairs", "--load 0"),
        ("yoo", "fig2 --run-limit 0"),
    ],
)
def test_number_that_must_be_above_zero_is_refused(
    name, words, only_parsed, monkeypatch, capsys
):
    monkeypatch.setattr("sys.argv", [name, *shlex.split(words)])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module_of(name)).main()
    assert ended.value.code == 2
    assert f"argument {words.split()[-2]}: " in capsys.readouterr().err


#: A python whose environments have a pip that finds no package.
PYTHON = """#!/bin/sh
case $2 in
    venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    pip) echo "ERROR: No matching distribution found for $5" >&2 && exit 1 ;;
esac
"""


@pytest.fixture
def log(tmp_path):
    log = tmp_path / "log.swf"
    log.write_text("; MaxProcs: 1\n1 0 0 9 1 -1 -1 1 9 -1 1 1 1 1 1 1 -1 -1\n")
    return log


def test_accasim_that_cannot_be_installed_gives_one_line(log, tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(sys, "argv", ["accasim", str(log), "--repeat", "1"])
    line = "accasim: accasim==1.1.3: pip install failed: ERROR: No matching"
    with pytest.raises(SystemExit, match=f"^{line}"):
        accasim.main()


def test_accasim_that_is_not_there_gives_one_line(log):
    words = [sys.executable, "-m", "benchmarks.sim.accasim", log, "--repeat", "1"]
    done = subprocess.run(
        [*words, "--accasim", sys.executable],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    # On a slow machine there is a line of progress.
    (error,) = [each for each in done.stderr.splitlines() if not each.startswith("runs:")]
    assert error.startswith("accasim: a run of accasim failed: ModuleNotFound")


def test_one_sample_is_its_own_percentile():
    found = {"samples": 1, "median_us": 3.0, "p99_us": 3.0, "max_us": 3.0}
    assert switch.summarise([3.0]) == found
