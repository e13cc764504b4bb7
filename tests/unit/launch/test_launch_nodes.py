"""Daemons of a job's nodes: up or not, name free or taken, leased or started."""

from __future__ import annotations

from pathlib import Path

import pytest

from cosched.core.errors import CoschedError, NoDaemon
from cosched.launch import nodes
from cosched.launch.nodes import JobNameTaken, JobRefused, check_nodes, lease_node
from cosched.rundir.paths import NodePaths

UP = NodePaths(Path("/r"), "up")
DOWN = NodePaths(Path("/r"), "down")


class FakeControl:
    def __init__(self, jobs=()):
        self.jobs = jobs
        self.asked = []
        self.closed = False
        self.private = False

    def request(self, op, **arguments):
        self.asked.append(op)
        if op != "status":
            return {"ok": True}
        return {"node": "up", "private": self.private, "jobs": list(self.jobs)}

    def close(self):
        self.closed = True


def check(control, paths=UP, job="mine"):
    return check_nodes([paths], lambda p: control if p == UP else None, uid=7, job=job)


def test_node_that_is_up_is_accepted():
    control = FakeControl([{"name": "mine", "uid": 8}, {"name": "other", "uid": 7}])
    assert check(control) == []
    assert control.closed


def test_node_that_is_down_is_returned():
    assert check(FakeControl(), DOWN) == [DOWN]


def test_name_of_a_running_job_is_taken():
    control = FakeControl([{"name": "mine", "uid": 7}])
    with pytest.raises(JobNameTaken, match=r"job name 'mine' is taken on node up"):
        check(control)
    assert control.closed


def test_lease_is_held_until_it_is_closed():
    control = FakeControl()
    assert lease_node(UP, lambda _: control, pytest.fail, uid=7, job="mine") is control
    assert "lease" in control.asked
    assert not control.closed


def test_lease_ends_when_the_name_is_taken():
    control = FakeControl([{"name": "mine", "uid": 7}])
    with pytest.raises(JobNameTaken):
        lease_node(UP, lambda _: control, pytest.fail, uid=7, job="mine")
    assert control.closed


def test_job_that_was_announced_does_not_take_its_own_name():
    def lease(*names):
        control = FakeControl([{"name": name, "uid": 7} for name in names])
        wanted = {"uid": 7, "job": "mine", "most": 1, "there": True}
        return lease_node(UP, lambda _: control, pytest.fail, **wanted)

    assert not lease("mine").closed
    assert not lease().closed  # the daemon has refused it
    with pytest.raises(JobRefused, match="more are not allowed"):
        lease("mine", "other")


def test_private_pair_is_started_where_none_is_up(monkeypatch):
    answers = [None, FakeControl()]
    started = []
    lease = lease_node(DOWN, lambda _: answers.pop(0), started.append, uid=7, job="mine")
    assert started == [DOWN]
    assert "lease" in lease.asked


@pytest.mark.parametrize("retired", [True, False])
def test_private_pair_with_lower_limits_is_replaced_unless_it_has_jobs(
    monkeypatch, retired
):
    first, next_one = FakeControl(), FakeControl()
    first.private = True
    ask = first.request
    first.request = lambda op: {"retired": retired} if op == "retire" else ask(op)
    monkeypatch.setattr(nodes, "what_holds_back", lambda _pid: "the hard limit nofile 40")
    answers, started = [first, next_one], []
    lease = lease_node(UP, lambda _: answers.pop(0), started.append, uid=7, job="mine")
    assert lease is (next_one if retired else first)
    assert first.closed == retired
    assert started == [UP] * retired


def test_daemons_of_all_users_stay_whatever_their_limits_are(monkeypatch):
    """In a job of Slurm a hard limit may be higher than that of the daemons' unit."""
    control = FakeControl()
    monkeypatch.setattr(nodes, "what_holds_back", lambda _pid: "the hard limit memlock 8")
    lease = lease_node(UP, lambda _: control, pytest.fail, uid=7, job="mine")
    assert lease is control
    assert "retire" not in control.asked


def test_pair_that_ends_before_the_lease_is_replaced(monkeypatch):
    ending, next_one = ended_pair(), FakeControl()
    answers, started = [ending, next_one], []
    assert (
        lease_node(UP, lambda _: answers.pop(0), started.append, uid=7, job="mine")
        is next_one
    )
    assert started == [UP]
    assert ending.closed
    assert not next_one.closed


@pytest.mark.parametrize("gone", ["before it is asked", "before it answers"])
def test_pair_that_ends_when_it_is_joined_is_replaced(gone):
    """Another command had started it, and its last job has just ended."""
    joined = None if gone == "before it is asked" else ended_pair()
    answers, started = [None, joined, next_one := FakeControl()], []
    lease = lease_node(DOWN, lambda _: answers.pop(0), started.append, uid=7, job="mine")
    assert lease is next_one
    assert started == [DOWN, DOWN]


def ended_pair():
    """A connection to daemons that end before they answer."""

    def end(_op):
        raise NoDaemon("node up: the daemon ended before it answered")

    ending = FakeControl()
    ending.request = end
    return ending


def test_pair_that_does_not_start_is_an_error(monkeypatch):
    with pytest.raises(CoschedError, match="no daemon answers"):
        lease_node(DOWN, lambda _: None, lambda _: None, uid=7, job="mine")


def test_name_that_waits_for_memory_is_taken_too():
    control = FakeControl()
    control.request = lambda op: {"jobs": [], "waiting": [{"name": "mine", "uid": 7}]}
    with pytest.raises(JobNameTaken):
        check(control)


@pytest.mark.parametrize("guarded", [True, False])
def test_job_larger_than_the_node_is_refused(guarded):
    control = FakeControl()
    memory = {"guarded": guarded, "total_bytes": 8 << 30}
    control.request = lambda op: {"jobs": [], "waiting": [], "memory": memory}
    if not guarded:
        assert lease_node(
            UP, lambda _: control, pytest.fail, uid=7, job="mine", need_bytes=1 << 40
        )
        return
    with pytest.raises(JobRefused, match=r"needs 16\.0 GiB, node up has 8\.0 GiB"):
        lease_node(
            UP, lambda _: control, pytest.fail, uid=7, job="mine", need_bytes=16 << 30
        )
    assert lease_node(
        UP, lambda _: control, pytest.fail, uid=7, job="mine", need_bytes=8 << 30
    )
