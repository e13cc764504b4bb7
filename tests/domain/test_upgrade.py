"""An upgrade of all that runs, under 20 jobs: no job notices.

Each part is started again, as by a package of another version with the same layouts. An
agent's tasks end with it, so its node is drained before (docs/operations.md).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from cosched.cluster.paths import DomainPaths
from cosched.config.queue import QueueSettings
from cosched.core.units import NS_PER_S
from cosched.jobs.client import Client
from cosched.jobs.job import Job
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.tools.until_told import build_until_told
from tests.tools.waiting import pauses

JOBS = 20
BIN = Path(sys.executable).parent
WITHIN_S = 240.0
#: Turns are short, so that each job soon sees that the file is there.
TURNS = ("--slice", "100ms", "--align", "off", "--order", "age")


def until(condition, what):
    deadline = time.monotonic() + WITHIN_S
    between = pauses()
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(next(between))
    return found


class Machine:
    """The daemons and the domain of this machine, in a run directory of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.run_dir = folder / "run"
        self.run_dir.mkdir()
        self.node = NodePaths(self.run_dir, os.uname().nodename)
        self.domain = DomainPaths(self.run_dir)

    def cosched(self, *words):
        done = subprocess.run(
            [BIN / "cosched", *words],
            env={**os.environ, "COSCHED_RUN_DIR": str(self.run_dir)},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def pids(self):
        """Returns the pids of the tasks on the node by job."""
        (node,) = json.loads(self.cosched("status", "--json"))["nodes"]
        return {job["name"]: [task["pid"] for task in job["tasks"]] for job in node["jobs"]}

    def states(self):
        """Returns the jobs that have begun and not ended, by number."""
        with Client.connect_to_running(self.run_dir) as client:
            return {each["job"]: each["state"] for each in client.queue()}

    def restart_controller(self):
        """Ends the controller and starts it, as its unit does."""
        os.kill(lock_holder(self.domain.controller_lock), signal.SIGTERM)
        until(lambda: lock_holder(self.domain.controller_lock) is None, "its end")
        with self.domain.controller_log.open("ab") as log:
            subprocess.Popen(
                [BIN / "cosched-controller", "--run-dir", self.run_dir],
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )


@pytest.fixture
def machine():
    # Short, since socket paths have at most 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="cosched-u-"))
    found = Machine(folder)
    yield found
    shutil.rmtree(folder)


@pytest.fixture
def program(machine):
    return build_until_told(BIN / "mpicc", machine.folder)


@pytest.mark.skipif(not (BIN / "mpicc").exists(), reason="needs an MPI beside Python")
def test_jobs_do_not_notice_new_daemons_and_a_new_controller(machine, program):
    told = machine.folder / "told"
    machine.cosched("up", *TURNS)
    machine.cosched("cluster", "up", "--jobs-per-node", str(JOBS))
    try:
        with Client.connect_to_running(machine.run_dir) as client:
            numbers = [
                client.submit(
                    Job(
                        [program, str(told)],
                        ranks=1,
                        name=f"job{index}",
                        output=str(machine.folder / "out-%j"),
                    )
                )
                for index in range(JOBS)
            ]
        began = until(lambda: has_all_tasks(machine), "all jobs run")
        before = lock_holder(machine.node.scheduler_lock)
        machine.cosched("up", "--restart", *TURNS)
        assert lock_holder(machine.node.scheduler_lock) != before
        assert machine.pids() == began
        machine.restart_controller()
        until(lambda: set(machine.states().values()) == {"running"}, "the jobs run on")
        assert sorted(machine.states()) == numbers
        machine.cosched("up", "--restart", *TURNS)
        assert machine.pids() == began
        told.touch()
        with Client.connect_to_running(machine.run_dir) as client:
            for number in numbers:
                job = client.wait(number)
                assert (job["state"], job["status"]) == ("done", 0), job
                assert Path(job["output"]).read_text() == "0: told\n"
    finally:
        told.touch()
        machine.cosched("cluster", "down", "--end-jobs")
        machine.cosched("down")
    log = machine.node.log.read_text()
    assert log.count(f"{JOBS} jobs are left to the next daemon") == 2
    assert "Traceback" not in log


def has_all_tasks(machine):
    pids = machine.pids()
    whole = len(pids) == JOBS and all(len(each) == 1 for each in pids.values())
    return pids if whole else None


def test_agents_are_upgraded_one_after_the_other(make_rig):
    rig = make_rig(2, queue=QueueSettings(grace_ns=NS_PER_S, jobs_per_node=JOBS))
    rig.start()
    rig.until_up()
    told = "until test -e {}; do sleep 0.05; done; echo {}"
    numbers = [rig.shell(told.format(n, n)) for n in range(JOBS)]
    for number in numbers:
        rig.until_state(number, "running")

    def places():
        with rig.client() as client:
            return {node["node"]: node["jobs"] for node in client.nodes()}

    on = places()
    assert sorted(on["n1"] + on["n2"]) == numbers
    for name, other in (("n1", "n2"), ("n2", "n1")):
        with ThreadPoolExecutor(1) as pool:
            drained = pool.submit(drain, rig, other, name)
            rig.until(partial(is_in, "draining", rig, other, name), "it does not drain")
            assert not drained.done()
            for number in on[name]:
                (rig.work / str(numbers.index(number))).touch()
            # The node is free once its jobs have ended; the other node's jobs run on.
            drained.result()
            assert is_in("drained", rig, other, name)
        assert not places()[name]
        rig.kill(name, signal.SIGTERM)
        rig.start(name)
        rig.until(partial(is_in, "drained", rig, other, name), "it has not joined")
        with rig.client(other) as client:
            client.undrain([name])
        later = rig.wait(rig.shell("echo later"))
        assert later["state"] == "done"
    for index, number in enumerate(numbers):
        job = rig.wait(number)
        assert (job["state"], rig.output(job)) == ("done", f"{index}\n")


def drain(rig, by, name):
    """Returns once a node is drained and free, by the agent of another node."""
    with rig.client(by) as client:
        client.drain([name], "an upgrade", wait=True)


def is_in(state, rig, by, name):
    """Returns whether a node is in this state, as the agent of another node answers."""
    with rig.client(by) as client:
        (found,) = (node["state"] for node in client.nodes() if node["node"] == name)
    return found == state
