"""Checks the order of waiting jobs at a moment against a plain sort."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.order import FCFS, LARGEST, WFP
from cosched.core.cluster.queue.waiting import WaitingList, arrival

SCORES = {
    FCFS: lambda job, now: 0,
    LARGEST: lambda job, now: job.size,
    WFP: lambda job, now: ((now - job.submit_ns) / job.walltime_ns) ** 3 * job.size,
}
#: A job comes with a size and a walltime, one of those that wait goes, or time passes.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 3), st.integers(1, 3)),
        st.integers(0, 5),
        st.sampled_from([0.0, 1.0]),
    ),
    max_size=30,
)


@pytest.mark.parametrize("order", SCORES, ids=lambda order: order.name)
@given(steps=STEPS)
@settings(max_examples=50, deadline=None)
def test_jobs_that_come_and_go_keep_the_order(order, steps):
    waiting, jobs, now = WaitingList(order), [], 0
    for number, step in enumerate(steps):
        match step:
            case (size, walltime):
                # Some come late, as a job that waits again.
                jobs.append(Job(number, size, walltime, max(0, now - number % 3)))
                waiting.add(jobs[-1])
            case float():
                now += int(step)
                expected = sorted(
                    jobs, key=lambda job: (-SCORES[order](job, now), arrival(job))
                )
                assert list(waiting.ranked(now)) == expected
            case _ if jobs:
                waiting.remove(jobs.pop(step % len(jobs)))


@pytest.mark.parametrize("order", [FCFS, LARGEST, WFP], ids=lambda order: order.name)
def test_jobs_that_a_pass_drops_are_gone(order):
    waiting = WaitingList(order)
    for number in range(4):
        waiting.add(Job(number, 1 + number, 1, 0))
    ranked = waiting.ranked(5)
    left = [job for place, job in enumerate(ranked) if place not in (0, 2)]
    waiting.drop(ranked, [0, 2])
    assert list(waiting.ranked(5)) == list(waiting.ranked(6)) == left
    assert waiting.jobs == sorted(left, key=arrival)
