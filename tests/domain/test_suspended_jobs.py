"""A queue suspends a running job, and another one runs on its nodes: the controller, the
agents and the tasks are real."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from cosched import Client
from cosched.config.queue import ChangeSettings, QueueSettings
from cosched.core.units import NS_PER_S
from cosched.linux import proc
from tests.domain.rig import LESS_QUICK
from tests.domain.test_malleable_queue import Domain

QUEUE = QueueSettings(
    "fcfs",
    grace_ns=NS_PER_S,
    size="malleable",
    changes=ChangeSettings(spared_ns=NS_PER_S, suspend_ns=60 * NS_PER_S),
)
#: Goes on until its file is there; a child that it has lost to another session, too.
LONG = "(setsid sleep 1000 &); while [ ! -e {0} ]; do sleep 0.02; done; echo right > {0}"
SHORT = "while [ ! -e {0} ]; do sleep 0.02; done"


class Nodes:
    """Two nodes that suspend jobs, and jobs of the shell."""

    def __init__(self, rig):
        self.rig = rig

    def submit(self, script, name, time_s, nodes=2):
        stop = self.rig.folder / name
        more = {"nodes": nodes, "ppn": 1, "time_ns": round(time_s * NS_PER_S)}
        return self.rig.shell(script.format(stop), **more), stop

    def job(self, number):
        with self.rig.client() as client:
            return client.job(number)

    def until_for(self, number, other):
        """Waits until a job is suspended for another one; None: until it runs."""
        self.rig.until(
            lambda: self.job(number)["suspended_for"] == other, f"{self.job(number)}"
        )

    def until_stands(self, number, stands):
        """Waits until all processes of a job stand still, or none does."""

        def stands_as_wanted():
            states = {proc.state(pid) for pid in self.processes(number)} - {None, "Z"}
            if not stands:
                return states and "T" not in states
            # A shell waits in state D for a child that stopped before it ran a program.
            return "T" in states and states <= {"T", "D"}

        self.rig.until(stands_as_wanted, f"job {number} stands: {not stands}")

    def processes(self, number):
        """Returns the processes of a job."""
        wanted, found = f"COSCHED_DOMAIN_JOB={number}", []
        for pid in self.rig.strays(""):
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_text(errors="replace")
                if wanted in variables.split("\0"):
                    found.append(pid)
        return found


@pytest.fixture
def nodes(make_rig):
    rig = make_rig(2, queue=QUEUE, life=LESS_QUICK, slots=1)  # both jobs want the only one
    rig.start()
    rig.until_up()
    return Nodes(rig)


@pytest.fixture
def lent(nodes):
    """Returns the nodes, a suspended job, and a job on the nodes of that one. A file ends
    each job."""
    first = nodes.submit(LONG, "first", 600)
    nodes.rig.until_state(first[0], "running")
    second = nodes.submit(SHORT, "second", 30, nodes=1)
    nodes.until_for(first[0], second[0])
    nodes.rig.until_state(second[0], "running")
    return nodes, first, second


def test_job_stands_still_while_another_one_has_its_nodes(lent):
    nodes, (first, stop_first), (second, stop_second) = lent
    nodes.until_stands(first, True)
    nodes.until_stands(second, False)
    words = nodes.job(first)["why"]
    assert "; is suspended since " in words
    assert f": job {second} has nodes of it; " in words
    assert f"has nodes of job {first}" in nodes.job(second)["why"]
    stop_second.touch()
    assert nodes.rig.wait(second)["state"] == "done"
    nodes.until_for(first, None)
    nodes.until_stands(first, False)
    stop_first.touch()
    job = nodes.rig.wait(first)
    assert (job["state"], job["suspensions"]) == ("done", 1)
    assert job["suspended_s"] > 0
    assert stop_first.read_text() == "right\n"


def test_suspended_job_can_be_cancelled(lent):
    nodes, (first, _), (second, stop_second) = lent
    with nodes.rig.client() as client:
        client.cancel(first)
    assert nodes.rig.wait(first)["state"] == "cancelled"
    assert nodes.rig.state(second) == "running"
    stop_second.touch()
    assert nodes.rig.wait(second)["state"] == "done"
    nodes.rig.until(lambda: not nodes.rig.strays(""), "tasks are left")


def test_killed_controller_lets_the_job_continue_later(lent):
    nodes, (first, stop_first), (second, stop_second) = lent
    nodes.rig.kill("controller")
    nodes.until_stands(first, True)
    nodes.rig.start("controller")
    nodes.until_for(first, second)
    stop_second.touch()
    assert nodes.rig.wait(second)["state"] == "done"
    nodes.until_for(first, None)
    stop_first.touch()
    assert nodes.rig.wait(first)["state"] == "done"


def test_killed_controller_after_the_end_of_the_borrower(lent):
    nodes, (first, stop_first), (second, stop_second) = lent
    nodes.rig.kill("controller")
    stop_second.touch()
    nodes.rig.until(lambda: not nodes.processes(second), "the second job runs")
    nodes.rig.start("controller")
    nodes.until_for(first, None)
    nodes.until_stands(first, False)
    stop_first.touch()
    assert nodes.rig.wait(first)["state"] == "done"


def test_killed_agent_ends_both_jobs(lent):
    nodes, (first, _), (second, _) = lent
    lost = nodes.job(second)["hosts"][0]
    other = "n2" if lost == "n1" else "n1"
    nodes.rig.kill(lost)

    def ends():
        with Client.connect(nodes.rig.paths.run_dir, other) as client:
            return {client.job(number)["state"] for number in (first, second)}

    nodes.rig.until(lambda: ends() == {"node lost"}, f"{ends()}")
    nodes.rig.until(lambda: not nodes.rig.strays(""), "tasks are left")


@pytest.mark.mpi_job
def test_suspended_mpi_job_ends_with_the_right_answer(make_rig, bin_folder):
    """A rigid job of two ranks lends its nodes to a malleable one, which is bounded."""
    rig = make_rig(2, queue=QUEUE)
    rig.start()
    rig.until_up()
    domain = Domain(rig, bin_folder)
    first, stop_first = domain.submit(nodes=2, ppn=1, time_s=600)
    domain.until_nodes({first: 2})
    second, stop_second = domain.submit(minimum=2, ideal=2, time_s=30)
    domain.until_nodes({second: 2})
    assert domain.job(first)["suspended_for"] == second
    domain.end(second, stop_second)
    rig.until(lambda: domain.job(first)["suspended_for"] is None, "it does not continue")
    domain.end(first, stop_first)
    domain.nothing_is_left()
