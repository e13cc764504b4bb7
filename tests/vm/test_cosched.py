"""The whole of it on a node with cgroup v2: up, two jobs that share the node, down."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.vm, pytest.mark.mpi_job]

CGROUPS = Path("/sys/fs/cgroup")
DEADLINE_S = 120
JOBS = ("one", "other")
RANKS = 2

# The machine is as slow as its host: jobs run until the test stops them.
UNTIL_TOLD = """
import os, sys
from mpi4py.MPI import COMM_WORLD as world
told = 0
while told < world.size:
    told = world.allreduce(os.path.exists(sys.argv[1]))
print(told)
"""


def _run(*command: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _status() -> dict[str, Any]:
    (node,) = json.loads(_run("cosched", "status", "--json"))["nodes"]
    return node


def _eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.fixture
def node() -> Iterator[None]:
    """This machine as a node, taken down whatever happens."""
    _run("cosched", "up", "--slice", "500ms")
    yield
    subprocess.run(["cosched", "down"], capture_output=True, check=False, timeout=60)


@pytest.fixture
def jobs(node: None, tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two jobs, both with a rank for every CPU, that run until ``tmp_path/end``."""
    program = [sys.executable, "-c", UNTIL_TOLD, str(tmp_path / "end")]
    command = ["cosched-run", "-n", str(RANKS), "--job"]
    started = [
        subprocess.Popen([*command, job, *program], stdout=subprocess.PIPE, text=True)
        for job in JOBS
    ]
    yield started
    for job in started:
        job.terminate()
        job.communicate(timeout=DEADLINE_S)


def test_two_jobs_share_node_and_down_leaves_nothing(
    jobs: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    seen: dict[str, Any] = {}

    def do_they_take_turns() -> bool:
        assert [job.poll() for job in jobs] == [None, None]
        seen.update(_status())
        tasks = {job["name"]: len(job["tasks"]) for job in seen["jobs"]}
        both = tasks == dict.fromkeys(JOBS, RANKS)
        return both and seen["counters"].get("csw_switched", 0) > 0

    assert _eventually(do_they_take_turns), seen
    classes = seen["class_scheduler"]
    assert (classes["name"], classes["mode"]) == ("cgroup2", "proportional")
    (top,) = CGROUPS.glob("cosched-*")
    assert len([path for path in top.iterdir() if path.is_dir()]) == len(JOBS)

    (tmp_path / "end").touch()
    for job in jobs:
        said, _ = job.communicate(timeout=DEADLINE_S)
        assert job.returncode == 0
        assert said.split() == [str(RANKS)] * RANKS

    _run("cosched", "down")
    assert not list(Path("/dev/shm").glob("cosched-*"))
    assert not list(CGROUPS.glob("cosched*"))
    assert not _daemons()


def _daemons() -> list[str]:
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    return [
        " ".join(line)
        for line in lines
        if any(word.startswith("cosched_daemons.") for word in line)
    ]
