"""Jobs that have to end, while a part of them does not read or gets no credit."""

import os
import signal
import time

import pytest

from cosched.config.queue import QueueSettings
from cosched.core.cluster.startup.ends import end_limit_s
from cosched.core.units import NS_PER_S
from tests.domain.rig import QUICK
from tests.tools.holding import hold

GRACE_S = 1
#: A task that writes the steward's pid into a file.
WRITE = "echo $PPID > new; mv new steward"


@pytest.fixture
def start(make_rig):
    """Returns a function that starts a domain."""

    def make(nodes, **more):
        queue = QueueSettings(grace_ns=GRACE_S * NS_PER_S, jobs_per_node=2)
        rig = make_rig(nodes, queue=queue, **more)
        rig.start()
        rig.until_up()
        return rig

    return make


def steward(rig):
    """Returns the pid of the steward that a task has written; it does not run any more."""
    file = rig.work / "steward"
    rig.until(file.exists, "no task has written the pid of its steward")
    pid = int(file.read_text())
    hold(pid)
    return pid


def ended(client, number):
    job = client.job(number)
    return job if job["ended_ns"] else None


def paused_job(rig):
    """Returns a job whose second node has sent all that it may, to a root that is stopped;
    and the root's steward."""
    script = f'[ "$PMI_RANK" = 0 ] || exec yes 74.3; {WRITE}; sleep 74.3'
    number = rig.shell(script, nodes=2, ppn=1, pmi="pmi1")
    pid = steward(rig)
    time.sleep(1)  # the other task writes
    return number, pid


def test_a_job_whose_steward_does_not_read_can_be_cancelled(start):
    rig = start(1)
    number = rig.shell(f"{WRITE}; sleep 75.4")
    steward(rig)
    with rig.client() as client:
        client.cancel(number)
    assert rig.wait(number)["state"] == "cancelled"
    assert "the job's steward on n1 did not end in 11 s: killed it" in rig.log("n1")
    rig.until(lambda: not rig.strays("75.4"), "a task is left")
    assert rig.wait(rig.shell("true", ppn=4))["state"] == "done"


def test_a_steward_that_does_not_read_does_not_hold_up_the_end_of_its_agent(start):
    rig = start(1)
    rig.shell(f"{WRITE}; sleep 75.5")
    steward(rig)
    rig.members["n1"].terminate()
    rig.members["n1"].wait(end_limit_s(GRACE_S) + 10)
    rig.until(lambda: not rig.strays("75.5"), "a task is left")


def test_output_without_credit_ends_with_a_root_that_is_lost(start):
    rig = start(2, life=QUICK)
    number, _ = paused_job(rig)
    rig.kill("n1")
    began = time.monotonic()
    with rig.client("n2") as client:
        job = rig.until(lambda: ended(client, number), "the job has not ended")
    assert job["state"] == "node lost"
    assert time.monotonic() - began < end_limit_s(GRACE_S) - 3
    assert "killed it" not in rig.log("n2")


def test_output_without_credit_ends_with_the_steward_of_the_root(start):
    rig = start(2)
    number, pid = paused_job(rig)
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    job = rig.wait(number)
    assert job["reason"] == "the steward of the job on n1 was killed"
    assert time.monotonic() - began < end_limit_s(GRACE_S) - 3
    assert "killed it" not in rig.log("n2")


def test_an_agent_whose_nursery_has_ended_ends_with_one_line(start):
    rig = start(1)
    agent = rig.members["n1"].pid
    with open(f"/proc/{agent}/task/{agent}/children") as file:
        (nursery,) = map(int, file.read().split())
    os.kill(nursery, signal.SIGKILL)
    assert rig.members["n1"].wait(10) != 0
    last = rig.log("n1").splitlines()[-1]
    assert "the agent's nursery has ended; restart the agent" in last
    rig.start("n1")
    rig.until_up()
    assert rig.wait(rig.shell("true"))["state"] == "done"
