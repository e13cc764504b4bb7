"""Jobs that rest for a moment, so that jobs on other CPUs are seen without them."""

from __future__ import annotations

import msgspec

from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import (
    Cause,
    FreezeClass,
    Mode,
    PublishStatus,
    Refusal,
    RefuseRequest,
    RestChosen,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    ThawClass,
)
from cosched.core.node.resting_jobs import LONGEST_NS
from cosched.core.trace.account import Accounts, Moment, Standing
from cosched.core.trace.codec import decode, encode
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import Node

ONE, OTHER = frozenset({0}), frozenset({1})


def two_halves():
    node = Node()
    node.register("a", cpus=ONE)
    node.register("b", cpus=OTHER)
    return node


def rest(node, *jobs, for_ns=50 * NS_PER_MS, after_ns=0):
    until_ns = node.now_ns + after_ns + for_ns
    return node.send(RestChosen, jobs=jobs, until_ns=until_ns, after_ns=after_ns)


def published(commands, job):
    return [
        (c.scheduled, c.cause)
        for c in commands
        if isinstance(c, PublishStatus) and c.job == job
    ]


def test_resting_job_is_stopped_and_the_other_one_runs():
    node = two_halves()
    commands = rest(node, "b")
    assert published(commands, "b") == [(False, Cause.RESTING)]
    assert node.frozen == {"b": {ord("b")}}
    assert node.running == {"a"}
    assert node.modes["b"] is Mode.RESTING


def test_rest_ends_when_the_driver_ends_it():
    node = two_halves()
    rest(node, "b")
    commands = rest(node, after_ns=20 * NS_PER_MS)
    assert published(commands, "b") == [(True, Cause.RESTED)]
    assert not node.frozen
    assert node.running == {"a", "b"}
    assert node.modes["b"] is Mode.COSCHEDULED


def test_rest_ends_with_the_next_event_after_its_time():
    node = two_halves()
    rest(node, "b")
    node.send(SliceEnded, after_ns=49 * NS_PER_MS)
    assert node.running == {"a"}
    node.send(SliceEnded, after_ns=1 * NS_PER_MS)
    assert node.running == {"a", "b"}
    assert not node.frozen


def test_rest_is_bounded():
    node = two_halves()
    rest(node, "b", for_ns=1000 * NS_PER_S)
    node.send(SliceEnded, after_ns=LONGEST_NS)
    assert node.running == {"a", "b"}


def test_rest_is_no_time_on_the_cpu():
    node = two_halves()
    rest(node, "b", after_ns=NS_PER_S)
    rest(node, after_ns=40 * NS_PER_MS)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.machine.jobs["b"].age_ns(node.now_ns) == 2 * NS_PER_S
    assert node.machine.jobs["a"].age_ns(node.now_ns) == 2 * NS_PER_S + 40 * NS_PER_MS


def test_another_job_rests_in_its_place():
    node = two_halves()
    rest(node, "b")
    rest(node, "a", after_ns=NS_PER_MS)
    assert node.running == {"b"}
    assert set(node.frozen) == {"a"}


def test_job_that_takes_turns_does_not_rest():
    node = two_halves()
    node.register("c", cpus=OTHER)
    rest(node, "b", "c")
    assert not node.frozen


def test_suspended_and_raised_jobs_do_not_rest():
    node = two_halves()
    node.choose("a", Mode.RAISED)
    node.choose("b", Mode.SUSPENDED)
    commands = rest(node, "a", "b", "unknown")
    assert not any(isinstance(c, FreezeClass) for c in commands)
    rest(node, after_ns=NS_PER_S)
    assert node.machine.jobs["b"].mode is Mode.SUSPENDED


def test_owner_may_suspend_a_resting_job():
    node = two_halves()
    rest(node, "b")
    node.choose("b", Mode.SUSPENDED)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert set(node.frozen) == {"b"}
    assert node.machine.jobs["b"].mode is Mode.SUSPENDED


def test_task_that_comes_to_a_resting_job_is_stopped():
    node = two_halves()
    rest(node, "b")
    commands = node.register("b", 77, cpus=OTHER)
    assert any(isinstance(c, FreezeClass) for c in commands)


def test_request_of_a_resting_job_is_out_of_date():
    node = two_halves()
    rest(node, "b")
    refused = [c for c in node.trap("b") if isinstance(c, RefuseRequest)]
    assert [c.reason for c in refused] == [Refusal.STALE]


def test_job_may_end_while_it_rests():
    node = two_halves()
    rest(node, "b")
    node.send(TaskExited, job="b", task=ord("b"))
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"a"}


def test_daemon_that_ends_continues_resting_jobs():
    node = two_halves()
    rest(node, "b")
    commands = node.send(ShutdownRequested)
    assert any(isinstance(c, ThawClass) for c in commands)
    assert not node.frozen


def test_restored_machine_ends_the_rest():
    node = two_halves()
    rest(node, "b")
    node.machine = NodeScheduler.restored(node.machine.snapshot())
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"a", "b"}


def test_resting_job_stands_alike_in_live_steps_and_after_a_restart():
    node, live, restarted = two_halves(), Accounts(), Accounts()
    at_ns = node.now_ns
    live.resume(node.machine.snapshot(), Moment(at_ns, at_ns))
    event = RestChosen(now_ns=at_ns, wall_ns=at_ns, jobs=("b",), until_ns=at_ns + NS_PER_S)
    live.take(event, node.machine.handle(event))
    restarted.resume(node.machine.snapshot(), Moment(at_ns, at_ns))
    standings = {job: account.standing for job, account in live.open.items()}
    assert standings == {"a": Standing.SCHEDULED, "b": Standing.UNSCHEDULED}
    assert standings == {job: one.standing for job, one in restarted.open.items()}


def test_trace_has_the_rest():
    event = RestChosen(now_ns=1, wall_ns=2, jobs=("b",), until_ns=3)
    assert decode(encode([(event, ())]).rstrip(b"\n")) == (event, ())
    assert msgspec.json.decode(encode([(event, ())]))["e"] == "RestChosen"
