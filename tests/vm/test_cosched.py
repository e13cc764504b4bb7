"""The whole of it on a node with cgroup v2: up, two jobs that share the node, down."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from .programs import program

pytestmark = [pytest.mark.vm, pytest.mark.mpi_job]

CGROUPS = Path("/sys/fs/cgroup")
DEADLINE_S = 120
JOBS = ("one", "other")
RANKS = 2
SIZE = ("-g", "24", "-i", "60")


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
    """This machine as a node, taken down at the end."""
    _run("cosched", "up", "--slice", "500ms")
    yield
    subprocess.run(["cosched", "down"], check=False, timeout=DEADLINE_S)


@pytest.fixture
def jobs(node: None) -> Iterator[list[subprocess.Popen[str]]]:
    """Two jobs, both with a rank on every CPU."""
    wavefront = [program("wavefront"), *SIZE]
    command = ["cosched-run", "-n", str(RANKS), "--job"]
    started = [
        subprocess.Popen([*command, job, *wavefront], stdout=subprocess.PIPE, text=True)
        for job in JOBS
    ]
    yield started
    for job in started:
        job.terminate()
        job.communicate(timeout=DEADLINE_S)


@pytest.mark.usefixtures("node")
def test_node_takes_cgroup2() -> None:
    classes = _status()["class_scheduler"]
    assert (classes["name"], classes["mode"]) == ("cgroup2", "proportional")


def test_two_jobs_share_the_node(jobs: list[subprocess.Popen[str]]) -> None:
    def are_both_there() -> bool:
        tasks = {job["name"]: len(job["tasks"]) for job in _status()["jobs"]}
        assert [job.poll() for job in jobs] == [None, None], tasks
        return tasks == dict.fromkeys(JOBS, RANKS)

    assert _eventually(are_both_there), _status()["jobs"]
    (classes,) = CGROUPS.glob("cosched-*")
    assert len([path for path in classes.iterdir() if path.is_dir()]) == len(JOBS)
    for job in jobs:
        said, _ = job.communicate(timeout=DEADLINE_S)
        assert job.returncode == 0
        assert "verification: success" in said
    assert _eventually(lambda: not _status()["jobs"])
    assert _status()["counters"]["csw_switched"] > 0


@pytest.mark.usefixtures("node")
def test_down_leaves_nothing() -> None:
    _run("cosched", "down")
    assert not list(Path("/dev/shm").glob("cosched-*"))
    assert not list(CGROUPS.glob("cosched*"))
    names = [" ".join(process.info["cmdline"] or []) for process in _processes()]
    assert not [name for name in names if "cosched" in name and "pytest" not in name]


def _processes() -> Iterator[psutil.Process]:
    return psutil.process_iter(["cmdline"])
