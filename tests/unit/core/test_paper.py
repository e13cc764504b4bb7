"""``order=paper``: the rules of Yoo and Jette, sections 2.1 and 2.2.3, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.node.messages import (
    Cause,
    OrderTimer,
    PublishStatus,
    Refusal,
    RefuseRequest,
    SetAlarm,
    SliceEnded,
    TaskExited,
)
from cosched.core.node.settings import FIXED_NS, Order, Settings
from cosched.core.units import NS_PER_MS, NS_PER_S
from tests.unit.core.machine_node import FREE, Node

SLICE_NS = 15 * NS_PER_S
GMET_NS = 5 * NS_PER_S
PAPER = Settings(SLICE_NS, GMET_NS, order=Order.PAPER)


def node_of(jobs="ab", chosen=PAPER):
    """A node with these jobs; the first one is scheduled."""
    node = Node(chosen)
    for job in jobs:
        node.register(job)
    assert node.running == {jobs[0]}
    return node


def refusals(commands):
    return [command.reason for command in commands if isinstance(command, RefuseRequest)]


# -- CMDREG --------------------------------------------------------------------------------


def test_new_job_runs_at_once_only_if_no_other_job_runs():
    node = Node(PAPER)
    node.register("b", submitted_ns=node.now_ns)
    node.register("a", submitted_ns=node.now_ns - NS_PER_S)
    assert node.running == {"b"}, "the job that was submitted first has no precedence"
    assert node.shares == {"a": 1, "b": 99}


def test_default_order_lets_the_first_submission_precede():
    node = Node(FREE)
    node.register("b", submitted_ns=node.now_ns)
    node.register("a", submitted_ns=node.now_ns - NS_PER_S)
    assert node.running == {"a"}


# -- CMDOUT --------------------------------------------------------------------------------


def test_job_with_least_cpu_time_follows_when_the_scheduled_one_ends():
    node = node_of("abc")
    node.trap("b", after_ns=GMET_NS)
    node.trap("a", after_ns=GMET_NS)
    node.send(TaskExited, job="a", task=ord("a"))
    assert node.running == {"c"}


# -- CMDCSW --------------------------------------------------------------------------------


def test_slice_end_schedules_the_job_with_least_cpu_time():
    node = node_of("abc")
    order = []
    for _ in range(6):
        node.send(SliceEnded, after_ns=SLICE_NS)
        order += node.running
    assert order == list("bcabca")


def test_slice_end_keeps_the_job_with_least_cpu_time():
    """A job that was pulled in just before goes on, and its GMET does not begin again."""
    node = node_of()
    node.send(SliceEnded, after_ns=SLICE_NS)
    node.trap("a", after_ns=GMET_NS)
    node.trap("b", after_ns=GMET_NS)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.running == {"b"}
    node.trap("a", after_ns=GMET_NS - NS_PER_S)
    assert node.running == {"a"}


def test_slice_end_counts_cpu_time_exactly():
    """The default ignores differences below a grain."""
    node = node_of("ab")
    node.send(SliceEnded, after_ns=SLICE_NS)
    node.trap("a", after_ns=SLICE_NS + 1)
    node.trap("b", after_ns=GMET_NS)
    node.trap("a", after_ns=GMET_NS)
    node.send(SliceEnded, after_ns=0)
    assert node.running == {"a"}, "b has had a nanosecond more"


def test_newcomer_catches_up_with_older_jobs():
    """Accounts begin at zero: nothing bounds how long a newcomer is ahead."""
    node = node_of("a")
    node.now_ns += 4 * SLICE_NS
    node.register("b")
    for _ in range(5):  # a has had five slices at the first of these ends
        node.send(SliceEnded, after_ns=SLICE_NS)
        assert node.running == {"b"}
    node.send(SliceEnded, after_ns=SLICE_NS)
    assert node.running == {"a"}


# -- CMDSCH --------------------------------------------------------------------------------


@pytest.mark.parametrize(("after_ns", "granted"), [(GMET_NS - 1, False), (GMET_NS, True)])
def test_message_schedules_its_job_once_gmet_is_over(after_ns, granted):
    node = node_of()
    commands = node.trap("b", after_ns=after_ns)
    assert node.running == ({"b"} if granted else {"a"})
    assert refusals(commands) == ([] if granted else [Refusal.GMET])


def test_refused_request_is_discarded():
    """Nothing is kept: no alarm follows, and the next message may ask at once."""
    node = node_of()
    epoch = node.machine.jobs["b"].epoch
    commands = node.trap("b")
    assert commands[1:] == (PublishStatus("b", epoch + 1, False, Cause.DISCARDED),)
    assert not any(isinstance(command, SetAlarm) for command in commands)
    assert not node.machine.jobs["b"].awaits_gmet
    assert refusals(node.trap("b", after_ns=NS_PER_S)) == [Refusal.GMET]
    node.trap("b", after_ns=GMET_NS)
    assert node.running == {"b"}


def test_default_order_keeps_a_refused_request():
    node = node_of(chosen=FREE)
    commands = node.trap("b")
    assert any(isinstance(command, SetAlarm) for command in commands)
    assert node.machine.jobs["b"].awaits_gmet


def test_pulled_job_has_no_more_than_gmet_from_a_later_job():
    node = node_of("ab")
    node.send(SliceEnded, after_ns=SLICE_NS)
    node.trap("a", after_ns=GMET_NS)
    node.trap("b", after_ns=GMET_NS)
    assert node.running == {"b"}


def test_message_pulls_a_job_that_is_far_ahead():
    node = node_of("abc")
    for _ in range(20):
        for job in "ba":
            node.trap(job, after_ns=GMET_NS)
            assert node.running == {job}


# -- the timer -----------------------------------------------------------------------------


def test_pulled_switch_does_not_restart_the_slice():
    node = node_of()
    orders = node.orders
    assert orders == OrderTimer(idle=False, align=False, slice_ns=SLICE_NS, deadline_ns=0)
    node.trap("b", after_ns=GMET_NS)
    node.send(SliceEnded, after_ns=NS_PER_S)
    assert node.orders == orders


def test_order_without_deadline_ticks_from_the_timers_beginning():
    orders = OrderTimer(idle=False, align=False, slice_ns=10, deadline_ns=0)
    ticks = [orders.next_tick_ns(now_ns, 0, 0, 3) for now_ns in (3, 12, 13, 14, 99)]
    assert ticks == [13, 13, 23, 23, 103]
    assert orders.next_tick_ns(100, 0, 99, -7) == 103


def test_slice_is_fixed_also_where_it_is_auto():
    node = node_of(chosen=replace(PAPER, slice_auto=True, gmet_auto=True))
    assert node.orders.slice_ns == FIXED_NS
    assert node.machine.slice_ns("a") == FIXED_NS


def test_order_is_kept_with_a_fixed_slice():
    changed = Settings().changed({"order": "paper", "slice": "15s"})
    assert changed.texts()["order"] == "paper"
    assert set(changed.without_effect) == {"least_share", "fairness"}


# -- random histories ----------------------------------------------------------------------


@settings(max_examples=100)
@given(
    count=st.integers(2, 5),
    began_ms=st.integers(0, 999),
    traps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 400)), max_size=200),
)
def test_random_messages_and_ticks_follow_the_paper(count, began_ms, traps):
    """GMET holds, each refusal is of a job that has not had it, and after a tick the job
    with the least CPU time runs."""
    gmet_ns = 100 * NS_PER_MS
    node = Node(Settings(NS_PER_S, gmet_ns, order=Order.PAPER))
    jobs = "abcde"[:count]
    for job in jobs:
        node.register(job)
    began_ns = began_ms * NS_PER_MS

    def tick_until(until_ns):
        while True:
            tick_ns = node.orders.next_tick_ns(node.now_ns, 0, 0, began_ns)
            if tick_ns > until_ns:
                node.now_ns = until_ns
                return
            node.now_ns = tick_ns
            node.send(SliceEnded)
            ages = {k: j.age_ns(tick_ns) for k, j in node.machine.jobs.items()}
            (running,) = node.running
            assert ages[running] == min(ages.values())

    for place, after_ms in traps:
        tick_until(node.now_ns + after_ms * NS_PER_MS)
        asking = jobs[place % count]
        (before,) = node.running
        ran_ns = node.machine.jobs[before].ran_ns(node.now_ns)
        commands = node.trap(asking)
        assert not any(isinstance(command, SetAlarm) for command in commands)
        if asking == before:
            assert refusals(commands) == [Refusal.SCHEDULED]
        elif ran_ns < gmet_ns:
            assert refusals(commands) == [Refusal.GMET]
            assert node.running == {before}
        else:
            assert node.running == {asking}
