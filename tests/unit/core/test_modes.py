"""The modes that a job's owner may choose: suspended, released, raised, and back."""

from __future__ import annotations

from cosched.core.node.messages import (
    AddTask,
    AlarmRang,
    Cause,
    CreateClass,
    DestroyClass,
    FreezeClass,
    Mode,
    PublishStatus,
    Refusal,
    ShutdownRequested,
    SliceEnded,
    TaskExited,
    ThawClass,
)
from cosched.core.units import NS_PER_S
from tests.unit.core.machine_node import FREE, ONE_CPU, Node


def node_with(jobs, settings=FREE):
    node = Node(settings)
    for job in jobs:
        node.register(job)
    return node


def published(commands, job):
    return [
        (c.scheduled, c.cause)
        for c in commands
        if isinstance(c, PublishStatus) and c.job == job
    ]


def turns(node, count):
    seen = []
    for _ in range(count):
        node.send(SliceEnded, after_ns=NS_PER_S)
        seen += sorted(node.running)
    return seen


def test_suspended_job_is_frozen_and_the_next_one_runs():
    node = node_with("abc")
    commands = node.choose("a", Mode.SUSPENDED)
    assert published(commands, "a") == [(False, Cause.SUSPENDED)]
    assert published(commands, "b") == [(True, Cause.FREED)]
    assert node.frozen == {"a": {ord("a")}}
    assert node.shares == {"b": 100, "c": 0}
    assert turns(node, 4) == ["c", "b", "c", "b"]


def test_job_is_frozen_before_another_gets_its_cpu():
    commands = node_with("ab").choose("a", Mode.SUSPENDED)
    frozen = next(i for i, c in enumerate(commands) if isinstance(c, FreezeClass))
    woken = next(
        i for i, c in enumerate(commands) if isinstance(c, PublishStatus) and c.job == "b"
    )
    assert frozen < woken


def test_resumed_job_takes_equal_turns_again():
    node = node_with("ab")
    node.choose("a", Mode.SUSPENDED)
    turns(node, 50)
    commands = node.choose("a", Mode.COSCHEDULED)
    assert ThawClass("a") in commands
    assert published(commands, "a")[0] == (False, Cause.RESUMED)
    assert turns(node, 20).count("a") in (10, 11)


def test_suspend_and_resume_gain_no_turn():
    node = node_with("ab")
    node.send(SliceEnded, after_ns=NS_PER_S)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"a"}
    before = node.machine.jobs["a"].used_ns(node.now_ns)
    node.choose("a", Mode.SUSPENDED)
    node.choose("a", Mode.COSCHEDULED)
    assert node.machine.jobs["a"].used_ns(node.now_ns) == before


def test_new_task_of_a_suspended_job_is_frozen():
    node = node_with("a")
    node.choose("a", Mode.SUSPENDED)
    node.register("a", 7)
    assert node.frozen["a"] == {7, ord("a")}


def test_suspended_job_can_end():
    node = node_with("ab")
    node.choose("a", Mode.SUSPENDED)
    node.send(TaskExited, job="a", task=ord("a"))
    assert set(node.machine.jobs) == {"b"}
    assert node.shares == {"b": 100}


def test_message_of_a_suspended_job_pulls_no_switch():
    node = node_with("ab")
    node.choose("b", Mode.SUSPENDED)
    assert node.trap("b", after_ns=NS_PER_S)[0].reason is Refusal.SUSPENDED
    assert node.running == {"a"}


def test_released_job_has_no_class_and_is_scheduled():
    node = node_with("ab")
    node.choose("b", Mode.RELEASED)
    assert node.members == {"a": {ord("a")}}
    assert node.published["b"][1]
    assert node.orders.idle
    node.register("b", 7)
    node.send(TaskExited, job="b", task=7)
    assert node.members == {"a": {ord("a")}}
    commands = node.choose("b", Mode.COSCHEDULED)
    assert CreateClass("b", ONE_CPU) in commands
    assert AddTask("b", ord("b")) in commands
    assert not node.published["b"][1]
    assert turns(node, 2) == ["b", "a"]


def test_exit_of_a_released_job_destroys_no_class():
    node = node_with("ab")
    node.choose("b", Mode.RELEASED)
    commands = node.send(TaskExited, job="b", task=ord("b"))
    assert not any(isinstance(c, DestroyClass) for c in commands)
    assert set(node.machine.jobs) == {"a"}


def test_raised_job_gets_its_cpus_alone_at_once():
    node = Node()
    both = frozenset({0, 1})
    node.register("a", 1, frozenset({0}))
    node.register("b", 2, both)
    node.register("c", 3, frozenset({2}))
    assert node.running == {"a", "b", "c"}
    commands = node.choose("b", Mode.RAISED)
    assert node.running == {"b", "c"}
    assert published(commands, "a") == [(False, Cause.DISPLACED)]
    assert turns(node, 3) == ["b", "c"] * 3
    assert node.trap("a", after_ns=NS_PER_S)[0].reason is Refusal.BARRED
    assert node.running == {"b", "c"}


def test_barred_job_may_ask_again_when_unbarred():
    node = node_with("ab")
    node.choose("b", Mode.RAISED)
    assert node.trap("a", after_ns=NS_PER_S)[0].reason is Refusal.BARRED
    commands = node.choose("b", Mode.COSCHEDULED)
    assert node.running == {"b"}
    assert published(commands, "a") == []  # b has its GMET before it
    commands = node.send(AlarmRang, after_ns=node.alarm_ns - node.now_ns)
    assert published(commands, "a") == [(False, Cause.REARMED)]
    node.trap("a")
    assert node.running == {"a"}


def test_raised_jobs_that_share_cpus_take_turns():
    node = Node()
    both = frozenset({0, 1})
    for job in "abc":
        node.register(job, cpus=both)
    node.choose("a", Mode.RAISED)
    node.choose("b", Mode.RAISED)
    assert turns(node, 4) == ["b", "a", "b", "a"]


def test_job_pays_nothing_for_its_raised_time():
    node = node_with("ab")
    node.choose("a", Mode.RAISED)
    assert turns(node, 20) == ["a"] * 20
    node.choose("a", Mode.COSCHEDULED)
    assert turns(node, 20).count("a") in (9, 10)


def test_suspended_released_and_raised_in_sequence():
    node = node_with("ab")
    node.choose("a", Mode.SUSPENDED)
    commands = node.choose("a", Mode.RELEASED)
    assert commands.index(ThawClass("a")) < commands.index(DestroyClass("a"))
    node.choose("a", Mode.SUSPENDED)
    assert node.frozen == {"a": {ord("a")}}
    node.choose("a", Mode.RAISED)
    assert node.frozen == {}
    assert node.running == {"a"}


def test_shutdown_thaws_suspended_jobs():
    node = node_with("abc")
    node.choose("a", Mode.SUSPENDED)
    node.choose("b", Mode.RELEASED)
    commands = node.send(ShutdownRequested)
    assert ThawClass("a") in commands
    assert [c.job for c in commands if isinstance(c, DestroyClass)] == ["a", "c"]
