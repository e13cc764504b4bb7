"""Runs every command that README and docs show. Scripts have their own tests."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.commands import run_command

pytestmark = [pytest.mark.live, pytest.mark.mpi_job]

BIN = Path(sys.executable).parent
SCRIPTS = {
    *("./scripts/demo", "./scripts/test", "./scripts/dev", "scripts/dev"),
    "scripts/slurm-lab",
}
#: These commands run for minutes. The live tests run shorter forms of them.
LONG = re.compile(
    r"cosched (?:bench|tune|sim (?:calibrate|nodes)) (benchmarks/workloads/\S+)"
)
#: It would install the environment in which these tests run.
INSTALL = re.compile(r"pip install ")
#: The commands of these pages depend on each other: test_docs_control.py,
#: tests/domain/test_guide.py and tests/foreign/test_recipes.py run them.
IN_ORDER = {"control.md", "domain.md", "recipes.md"}
#: These need coupled domains: tests/domain/test_pairs.py runs those of its page.
OF_PAIRS = ("coupling.md", re.compile(r"cosched (?:submit|queue|why)\b"))
#: Options that shorten a long simulation, by the first words of the command.
LESS = {
    ("sim", "malleable", "sdsc"): ("--count", "200"),
    ("sim", "malleable", "mixed"): ("--count", "200"),
    ("sim", "malleable", "ctc"): ("--count", "200"),
    ("sim", "nodes", "--nodes"): ("--work", "200ms"),
}

#: Commands that need no daemon, and the files that they name.
QUIET = ("cosched shim ", "cosched sim ", "cosched report queues.json ")
FILES = re.compile(r"\.(?:swf|json|html)\b")

WORKLOAD = """
[[job]]
name = "app"
command = ["./app", "--preset", "short"]
ranks = 2
"""
#: Options that shorten the demonstration.
BRIEF = " --jobs 2 --repeat 1"


def commands(path):
    """Yields the commands of a page's fenced blocks that name no language.

    A backslash at the end of a line joins it to the next one, as in a shell.
    """
    for language, block in re.findall(
        r"^```(.*)\n((?:.*\n)*?)```$", path.read_text(), re.M
    ):
        if not language:
            joined = re.sub(r"\s*\\\n\s*", " ", block)
            yield from (line for line in joined.splitlines() if line)


@pytest.fixture
def folder(tmp_path):
    mpicc = BIN / "mpicc"
    if not (mpicc.exists() and shutil.which("gcc")):
        pytest.skip("no mpicc beside this Python, or no C compiler behind it")
    return tmp_path


@pytest.fixture
def folder_with_app(folder):
    """Returns a folder with the program ./app that pages name, and a workload of it."""
    source = ROOT / "benchmarks/programs/wavefront.c"
    command = [BIN / "mpicc", "-O2", "-o", folder / "app", source, "-lm"]
    subprocess.run(command, check=True)
    (folder / "workload.toml").write_text(WORKLOAD)
    return folder


def test_readme_commands_run_as_printed(folder, run_dir):
    environment = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "COSCHED_RUN_DIR": str(run_dir),
    }
    shown = list(commands(ROOT / "README.md"))
    assert any(line.startswith("cosched-run") for line in shown)
    try:
        for line in shown:
            if INSTALL.match(line):
                continue
            if line.split()[0] in SCRIPTS:
                assert os.access(ROOT / line.split()[0], os.X_OK), line
                continue
            run = subprocess.run(
                shlex.split(line + BRIEF * (line == "cosched demo")),
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            assert run.returncode == 0, f"{line}\n{run.stdout}{run.stderr}"
            if line.startswith("cosched-run "):
                assert "verification: success" in run.stdout, line
            if line == "cosched demo":
                assert "at once, with cosched" in run.stdout
    finally:
        subprocess.run(
            [BIN / "cosched", "lab", "down"], env=environment, check=False, cwd=folder
        )


def run_cosched(words, folder):
    """Runs a command of a page in a folder, with short logs for the traces it names."""
    for name in words:
        log = folder / name
        if ".swf" in name and not log.exists():
            generate = ["sim", "generate", log, "--jobs", "40", "--machine", "16"]
            assert cosched(*generate).returncode == 0
    words = [str(folder / word) if FILES.search(word) else word for word in words]
    less = (more for begin, more in LESS.items() if words[: len(begin)] == [*begin])
    return cosched(*words, *next(less, ()))


def cosched(*words):
    return run_command(*words)


def other_pages():
    return sorted(
        page for page in (ROOT / "docs").rglob("*.md") if page.name not in IN_ORDER
    )


@pytest.mark.parametrize("page", other_pages(), ids=lambda p: p.name)
def test_docs_show_only_commands_that_exist(page, tmp_path):
    for line in commands(page):
        words = line.split()
        if page.name == OF_PAIRS[0] and OF_PAIRS[1].match(line):
            continue
        if long := LONG.match(line):
            assert (ROOT / long[1]).exists(), line
            continue
        if line.startswith(QUIET):
            assert run_cosched(words[1:], tmp_path).returncode == 0, line
            continue
        if words[0] in SCRIPTS:
            assert (ROOT / words[0]).exists(), line
            if len(words) > 2 and words[1] == "bench":
                found = [
                    *ROOT.glob(f"benchmarks/*/{words[2]}.py"),
                    *ROOT.glob(f"benchmarks/*/*/{words[2]}.py"),
                    *ROOT.glob(f"benchmarks/*/{words[2]}/__main__.py"),
                ]
                assert found, line
        elif line in commands(ROOT / "README.md"):
            continue  # run by the test above
        elif words[1:2] == ["-m"]:
            module = ROOT / words[2].replace(".", "/")
            assert module.is_dir() or module.with_suffix(".py").exists(), line
        else:
            pytest.fail(f"{page.name}: not run by any test: {line}")
