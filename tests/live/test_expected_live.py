"""Expected lengths of jobs, from cosched-run through the daemons into the history."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess

import pytest

from cosched.core.units import NS_PER_S
from cosched.node.sockets.client import request
from cosched.rundir.paths import job_key
from cosched.shm.region import JobRegion
from tests.live.conftest import eventually
from tests.live.test_docs_live import BIN
from tests.live.test_observe_live import answers, cosched_replay

pytestmark = [pytest.mark.live, pytest.mark.mpi_job]


class Runs:
    """Starts jobs of this node; keeps the user's record in a folder of the test."""

    def __init__(self, node, folder):
        if not (BIN / "mpiexec").exists():
            pytest.skip("no mpiexec beside this Python")
        self.node = node
        self.record = folder / "runs.jsonl"
        self.environment = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "COSCHED_NODE": node.paths.node,
            "COSCHED_RUNS": str(self.record),
        }
        self._started = []

    def start(self, name, *words):
        command = [BIN / "cosched-run", "--run-dir", str(self.node.paths.run_dir)]
        process = subprocess.Popen(
            [*command, "--job", name, *words],
            env=self.environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def finish(self, process):
        _, errors = process.communicate(timeout=240)
        assert (process.returncode, errors) == (0, "")

    def region_of(self, name):
        """Returns what the running job's region has, when the daemon has made it."""
        key = job_key(os.geteuid(), name)
        eventually(lambda: self.node.job(name), f"job {name}")
        region = JobRegion.attach(self.node.paths.job_region(key))
        try:
            return region.expectation
        finally:
            region.close()

    def lengths_ns(self):
        lines = self.record.read_text().splitlines()
        return [json.loads(line)["length_ns"] for line in lines]

    def records(self):
        """Returns the daemon's records by the jobs' names."""
        return {r["name"]: r for r in request(self.node.paths, "history")["records"]}

    def close(self):
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def runs(node, tmp_path):
    runs = Runs(node, tmp_path)
    yield runs
    runs.close()


@pytest.fixture
def gate(tmp_path):
    """A FIFO; a job that reads it lasts until ``let_end``."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def let_end(gate):
    gate.open("w").close()


def test_second_run_is_expected_to_be_as_long_as_the_first(runs, node, run_dir, gate):
    node.up(slice="auto", gmet="auto", align="on")
    first = runs.start("first", "cat", gate)
    unknown = runs.region_of("first")
    assert unknown.kind
    assert unknown.lengths_ns == ()
    let_end(gate)
    runs.finish(first)
    (length_ns,) = runs.lengths_ns()
    assert 0 < length_ns < 60 * NS_PER_S
    second = runs.start("second", "cat", gate)
    known = runs.region_of("second")
    assert (known.kind, known.lengths_ns) == (unknown.kind, (length_ns,))
    length_s = pytest.approx(length_ns / NS_PER_S)
    order = runs.node.job("second")["order"]
    assert (order["expected_s"], order["lengths"]) == (length_s, 1)
    (shown,) = answers(run_dir, "top", "--once", "--interval", "0.2")["jobs"]
    assert shown["expected_s"] == length_s
    let_end(gate)
    runs.finish(second)
    assert len(runs.lengths_ns()) == 2
    found = runs.records()
    assert {record["kind"] for record in found.values()} == {unknown.kind}
    assert found["first"]["expected_s"] == 0
    assert found["second"]["expected_s"] == length_s
    assert found["first"]["scheduled_s"] == length_s
    jobs = answers(run_dir, "history")["jobs"]
    assert {job["name"]: job["expected_s"] for job in jobs} == {
        **{"first": None, "second": length_s},
    }
    node.down()
    assert cosched_replay(node.paths.directory).returncode == 0


def now_of(run_dir, job):
    """Returns what ``why`` reports of the job's present state on its node."""
    (story,) = answers(run_dir, "why", job)["nodes"]
    return story["now"]


def test_short_job_overtakes_a_long_one(runs, node, run_dir, gate):
    node.up(slice="auto", gmet="auto", align="on")
    cpu = ("taskset", "-c", "0")
    long = runs.start("long", "--time", "1h", *cpu, "sleep", "1000")
    eventually(lambda: (node.job("long") or {}).get("state") == "on", "the long job")
    short = runs.start("short", "--time", "1:30", *cpu, "cat", gate)
    assert runs.region_of("short").lengths_ns == (90 * NS_PER_S,)
    eventually(lambda: node.job("short")["state"] == "on", "the short job")
    now = {job: now_of(run_dir, job) for job in ("short", "long")}
    assert re.search(r"^runs for .* about \d+ s left, of 90 s expected", now["short"]), now
    assert re.search(
        r"^waits for .* about \d+ min left, of 60 min expected", now["long"]
    ), now
    let_end(gate)
    runs.finish(short)
    record = runs.records()["short"]
    assert record["expected_s"] == 90
    assert record["scheduled_s"] > 0
    assert node.job("long")["state"] == "on"
    assert node.job("long")["switches"] == 2
    long.send_signal(signal.SIGTERM)
    long.communicate(timeout=60)
    assert len(runs.lengths_ns()) == 1, "a job that was ended is not recorded"


def test_expectation_outlives_the_daemon(runs, node):
    node.up(slice="auto", gmet="auto")
    job = runs.start("app", "--time", "77s", "sleep", "5")
    before = runs.region_of("app")
    assert before.lengths_ns == (77 * NS_PER_S,)
    os.kill(node.scheduler_pid, signal.SIGKILL)
    eventually(lambda: node.scheduler_pid is None, "the end of the daemon")
    node.up(slice="auto", gmet="auto")
    assert runs.region_of("app") == before
    runs.finish(job)
    record = runs.records()["app"]
    assert record["partial"]
    assert (record["kind"], record["expected_s"]) == (before.kind, 77)
    assert not runs.record.exists(), "its whole length is not known"
