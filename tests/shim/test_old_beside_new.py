"""Two versions of cosched with another layout of the shared memory on one node.

The older one is this tree, built with the number before: no release was made yet. Jobs run
without coscheduling, with one line, as docs/releases.md promises.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from cosched.shm._native import lib
from tests.fakes import eventually
from tests.places import ROOT
from tests.shim.jobs import CROWDED, PATIENCE_S
from tests.tools.until_told import build_until_told

# Daemons and the shared memory are concerned, not the messages.
pytestmark = [pytest.mark.mpi_job, pytest.mark.one_mpi]

#: Builds the tree's reader of the shared memory, in the tree.
BUILD = "from cosched.shm._build import ffibuilder; ffibuilder.compile()"
RANKS = 2


class Version:
    """A tree of cosched: its commands in a run directory."""

    def __init__(self, tree, run_dir, **environ):
        self._start = tree / "cosched/start/__main__.py"
        self._environ = {
            **os.environ,
            **CROWDED,
            **environ,
            "COSCHED_RUN_DIR": str(run_dir),
        }

    def _argv(self, module, *words):
        return [sys.executable, "-I", "-X", "utf8", str(self._start), module, *words]

    def cosched(self, *words):
        done = subprocess.run(
            self._argv("cosched.cli.main", *words),
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self, *words):
        self.cosched("up", "--class-scheduler", "dutycycle", *words)

    def run(self, mpi, *words):
        """Starts a job of ``RANKS`` ranks."""
        options = ("--mpi", str(mpi.mpiexec), "-n", str(RANKS))
        return subprocess.Popen(
            self._argv("cosched.cli.run.main", *options, *words),
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def tasks(self):
        """Returns the number of tasks of each job on the node."""
        (node,) = json.loads(self.cosched("status", "--json"))["nodes"]
        return [len(job["tasks"]) for job in node["jobs"]]


@pytest.fixture(scope="module")
def older_tree(tmp_path_factory):
    """A tree of cosched whose shared memory has the version before."""
    tree = tmp_path_factory.mktemp("older")
    leave = shutil.ignore_patterns("__pycache__", "_native.*")
    for name, own in (("cosched", "cosched"), ("mpi_shim", "mpi_shim")):
        shutil.copytree(ROOT / name, tree / own, ignore=leave)
    shutil.copytree(ROOT / "daemons", tree / "cosched_daemons", ignore=leave)
    layout = tree / "cosched/shm/include/cosched/layout.h"
    text = layout.read_text()
    now = f"COSCHED_ABI = {lib.COSCHED_ABI},"
    assert text.count(now) == 1
    layout.write_text(text.replace(now, f"COSCHED_ABI = {lib.COSCHED_ABI - 1},"))
    subprocess.run([sys.executable, "-c", BUILD], cwd=tree, check=True, capture_output=True)
    return tree


@pytest.fixture
def versions(older_tree, run_dir):
    """Both versions; whichever daemons are up at the end are ended."""
    cache = str(older_tree / "cache")
    both = {
        "new": Version(ROOT, run_dir),
        "old": Version(older_tree, run_dir, XDG_CACHE_HOME=cache),
    }
    yield both
    both["new"].cosched("down")
    assert not list(run_dir.glob("*/*.sock"))


@pytest.fixture
def program(mpi, tmp_path):
    return build_until_told(mpi.mpicc, tmp_path)


def ended(job):
    """Returns the lines of cosched about a job that has ended well."""
    output, errors = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 0, errors
    assert sorted(output.splitlines()) == [f"{rank}: told" for rank in range(RANKS)]
    return [line for line in errors.splitlines() if line.startswith("cosched")]


@pytest.mark.parametrize(("job", "daemon"), [("old", "new"), ("new", "old")])
def test_job_beside_a_daemon_of_another_version_runs(
    mpi, versions, program, tmp_path, job, daemon
):
    versions[daemon].up()
    (tmp_path / "told").touch()
    (line,) = ended(versions[job].run(mpi, program, str(tmp_path / "told")))
    assert "another version" in line
    assert versions[daemon].tasks() == []


def test_jobs_run_on_under_an_upgrade_to_another_layout(mpi, versions, program, tmp_path):
    versions["old"].up()
    first = versions["old"].run(mpi, program, str(tmp_path / "told"))
    assert eventually(lambda: versions["old"].tasks() == [RANKS], within_s=PATIENCE_S)
    versions["new"].up("--restart")
    assert versions["new"].tasks() == []
    # Jobs that start from now on are coscheduled.
    second = versions["new"].run(mpi, program, str(tmp_path / "told"))
    assert eventually(lambda: versions["new"].tasks() == [RANKS], within_s=PATIENCE_S)
    (tmp_path / "told").touch()
    assert ended(second) == []
    assert ended(first) == [
        f"cosched: not coscheduled to the end; the daemon ended on {os.uname().nodename}"
    ]
