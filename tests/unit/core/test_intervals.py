"""When jobs were scheduled, read back from steps: against a plain forward account."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.messages import AlarmRang, Cause, PublishStatus
from cosched.core.trace.intervals import scheduled_intervals

CHANGES = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from("ab"), st.booleans()), max_size=30
)


def steps_of(changes):
    wall_ns, steps, now = 0, deque(), {"a": False, "b": False}
    for later, job, scheduled in changes:
        wall_ns += later
        now[job] = scheduled
        status = PublishStatus(job, wall_ns, scheduled, Cause.SLICE)
        steps.append((AlarmRang(now_ns=wall_ns, wall_ns=wall_ns), (status,)))
    return steps, now, wall_ns


def instants(intervals, since_ns, until_ns):
    """The whole nanoseconds in which a job was scheduled."""
    return {
        t
        for start, end in intervals
        for t in range(max(start, since_ns), until_ns if end is None else end)
    }


@given(CHANGES, st.integers(0, 150))
def test_reading_backwards_is_reading_forwards(changes, since_ns):
    steps, now, last_ns = steps_of(changes)
    until_ns = max(last_ns, since_ns) + 3
    expected = {"a": set(), "b": set()}
    for job in expected:
        mine = [(e.wall_ns, c[0].scheduled) for e, c in steps if c[0].job == job]
        ends = [*(wall_ns for wall_ns, _ in mine[1:]), until_ns]
        for (start, scheduled), end in zip(mine, ends, strict=False):
            if scheduled:
                expected[job] |= set(range(max(start, since_ns), end))
    found = scheduled_intervals(steps, now, since_ns)
    assert {j: instants(i, since_ns, until_ns) for j, i in found.items()} == expected
    for intervals in found.values():
        assert intervals == sorted(intervals)


def test_a_job_that_the_steps_do_not_mention_has_been_as_it_is():
    found = scheduled_intervals([], {"on": True, "off": False}, 7)
    assert found == {"on": [(7, None)], "off": []}


def test_no_more_steps_are_read_than_needed():
    read = []

    class Steps(deque):
        def __reversed__(self):
            return (read.append(step) or step for step in super().__reversed__())

    steps, now, last_ns = steps_of([(1, "a", True), (1, "b", False)] * 50)
    assert scheduled_intervals(Steps(steps), now, last_ns - 1)["a"] == [(99, None)]
    assert len(read) <= 4
