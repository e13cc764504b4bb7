"""What limited a job, and what that shows of its label."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.symbiosis.limited import (
    Spending,
    TaskReading,
    Verdict,
    find_limits,
    spent_between,
    summed,
)
from cosched.core.symbiosis.resources import Resource
from cosched.core.symbiosis.speeds import Measure
from cosched.core.trace.neighbours import Neighbour, Sharing, found_limits, merged_sharing
from cosched.core.units import NS_PER_S
from cosched.observe.shared_nodes import sentences

CPU, MEMORY = frozenset({Resource.CPU}), frozenset({Resource.MEMORY})
IO, NETWORK = frozenset({Resource.IO}), frozenset({Resource.NETWORK})


def spending(messages=0.0, blocked=0.0, moved=0, stalled=None, time_s=100.0):
    cpu_s = time_s - messages - blocked
    return Spending(time_s, messages, blocked, cpu_s, stalled, None, moved, 0)


@pytest.mark.parametrize(
    ("spent", "limits", "text"),
    [
        (spending(messages=61), NETWORK, "waiting for messages 61%"),
        (spending(blocked=70, moved=1), IO, "waiting for files 70%"),
        (spending(blocked=70), frozenset(), "idle 70%"),
        (spending(blocked=70, stalled=60.0), IO, "waiting for files 60%"),
        (spending(blocked=70, moved=1, stalled=5.0), frozenset(), "idle 65%"),
        (spending(messages=5), CPU | MEMORY, "computing 95%"),
        (
            spending(messages=40, blocked=30, moved=1),
            frozenset(),
            "waiting for messages 40%",
        ),
    ],
)
def test_largest_part_of_the_time_limits_a_job(spent, limits, text):
    found = find_limits(spent, None, None)
    assert found.limits == limits
    assert f"{found.doing} {found.percent}%" == text


@pytest.mark.parametrize(
    ("memory", "others", "limits"),
    [(1.5, None, MEMORY), (1.5, 1.0, MEMORY), (1.5, 1.6, CPU), (1.01, None, CPU)],
)
def test_job_that_computes_needs_memory_if_it_is_slow_beside_such_jobs(
    memory, others, limits
):
    assert find_limits(spending(), memory, others).limits == limits


def test_short_job_is_not_judged():
    assert find_limits(spending(time_s=0.5), None, None) is None


@pytest.mark.parametrize(
    ("found", "label", "verdict"),
    [
        (spending(messages=61), MEMORY, Verdict.WRONG),
        (spending(messages=61), MEMORY | NETWORK, Verdict.RIGHT),
        (spending(), CPU, Verdict.OPEN),
        (spending(), IO, Verdict.WRONG),
        (spending(blocked=70), CPU, Verdict.OPEN),
    ],
)
def test_verdict_on_a_label(found, label, verdict):
    assert find_limits(found, None, None).verdict(label) is verdict


def test_sentence_has_label_and_finding():
    text = find_limits(spending(messages=61), None, None).sentence(MEMORY)
    assert text == "labelled memory; was waiting for messages 61% of its time"


def reading(age=0.0, cpu=0.0, queued=0.0, waits=0.0, naps=0, read=0):
    parts = (int(part * NS_PER_S) for part in (age, cpu, queued, waits))
    return TaskReading(*parts, naps, read, 0)


def test_task_that_spins_in_its_waits_has_its_cpu_there():
    found = spent_between([(reading(), reading(10, cpu=7, queued=1, waits=4))])
    assert (found.time_s, found.messages_s, found.blocked_s) == (10, 4, 2)
    assert found.computing_s == 4


def test_task_that_sleeps_in_its_waits_is_blocked_only_outside_of_them():
    last = reading(10, cpu=5, waits=4, naps=9, read=7)
    found = spent_between([(reading(), last), (reading(), last)], 2.0)
    assert (found.messages_s, found.blocked_s, found.read_bytes) == (8, 2, 14)
    assert found.files_s == 2.0


def test_tasks_that_wait_for_a_disk_together_are_limited_by_it():
    """The kernel counts the seven seconds once, and the tasks wait for seven each."""
    found = spent_between([(reading(), reading(10, cpu=3, read=1))] * 8, 7.0)
    assert (found.time_s, found.files_s, found.idle_s) == (80, 56, 0)
    assert find_limits(found, None, None).limits == IO


@given(
    st.lists(
        st.tuples(*[st.tuples(*[st.integers(0, 10**11)] * 7)] * 2), min_size=1, max_size=4
    )
)
def test_parts_are_never_more_than_the_time(readings):
    pairs = [(TaskReading(*one), TaskReading(*other)) for one, other in readings]
    found = spent_between(pairs)
    assert found.messages_s + found.blocked_s <= found.time_s * (1 + 1e-9)
    assert min(found.messages_s, found.blocked_s, found.computing_s, found.idle_s) >= 0


def test_sum_of_nodes():
    assert summed([]) is None
    both = summed([spending(messages=10, stalled=1.0), spending(messages=20)])
    assert (both.time_s, both.messages_s, both.stalled_io_s) == (200, 30, None)


def neighbour(job, slowdown, trials=6, label=("memory",)):
    return Neighbour((job,), (7,), (label,), Measure.MESSAGES, trials, 10.0, 5.0, slowdown)


def test_few_looks_judge_no_label():
    few = Sharing(("cpu",), spending(), beside=(neighbour("0.b", 2.0, trials=2),))
    assert found_limits(few).limits == CPU | MEMORY
    enough = Sharing(("cpu",), spending(), beside=(neighbour("0.b", None),))
    assert found_limits(enough).verdict(CPU) is Verdict.WRONG


def test_people_read_what_was_seen():
    seen = Sharing(("memory",), spending(messages=61), 0.4, 0.0, (neighbour("0.b", 2.0),))
    assert sentences("0.a", seen) == [
        "labelled memory; was waiting for messages 61% of its time",
        "beside b 0.50 of its speed alone (6 looks, by messages)",
        "rested 0.4 s, so that others were seen alone",
    ]


def test_nodes_are_merged():
    one = Sharing(("io",), spending(), 0.1, 0.0, (neighbour("0.b", 2.0, trials=3),))
    other = Sharing(("io",), None, 0.2, 5.0, (neighbour("0.b", 3.0, trials=6),))
    both = merged_sharing([one, other])
    assert (both.rested_s, both.gave_way_s, both.spent) == (0.2, 5.0, spending())
    assert [each.slowdown for each in both.beside] == [3.0]
