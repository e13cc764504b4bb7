"""Waiting jobs keep the order of their arrival, whatever brings a job back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import ReserveJob, StartJob
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobSubmitted,
    NodesJoined,
    NodesLost,
    ReservedJobBegan,
    ReservedJobReleased,
    SettingsChanged,
    SharingChanged,
    Ticked,
)
from cosched.core.cluster.queue.waiting import arrival

NODES = ((0, 3),)
every_policy = pytest.mark.parametrize("policy", sorted(POLICIES))


def make(policy="easy", rows=1):
    return QueueMachine(Rows(NODES, rows), POLICIES[policy], grace_ns=1000)


def submit(queue, number, size, walltime=100, now=0, **wish):
    queue.handle(JobSubmitted(now, Job(number, size, walltime, now, **wish)))


def started(queue, now):
    return [
        command.job.number
        for command in queue.handle(Ticked(now))
        if isinstance(command, StartJob | ReserveJob)
    ]


@every_policy
@pytest.mark.parametrize("rows", [1, 2])
def test_job_whose_start_fails_keeps_its_place(policy, rows):
    queue = make(policy, rows)
    for number in range(rows):
        submit(queue, number, 4, now=0)
    assert started(queue, 0) == list(range(rows))
    for number in (7, 8, 9):
        submit(queue, number, 4, now=number)
    assert started(queue, 9) == []
    queue.handle(JobEnded(50, 0))
    assert started(queue, 50) == [7]
    queue.handle(JobFailedToStart(51, 7, requeue=True))
    assert [job.number for job in queue.waiting] == [7, 8, 9]
    assert started(queue, 51) == [7]


@every_policy
def test_job_that_is_submitted_again_with_another_size_keeps_its_place(policy):
    queue = make(policy)
    submit(queue, 0, 4)
    assert started(queue, 0) == [0]
    for number in (1, 2):
        submit(queue, number, 4, now=number)
    started(queue, 2)
    queue.handle(JobCancelled(3, 1))
    queue.handle(JobSubmitted(3, Job(1, 3, 100, 1)))
    assert [job.number for job in queue.waiting] == [1, 2]
    queue.handle(JobEnded(4, 0))
    assert started(queue, 4) == [2 if policy == "largest" else 1]


def test_first_of_equal_jobs_starts_first_in_whichever_row_a_job_ends():
    queue = make("easy", rows=2)
    starts = []
    for number in range(5):
        submit(queue, number, 4, now=number)
        starts += started(queue, number)
    assert starts == [0, 1]
    queue.handle(JobEnded(7, 1))
    assert started(queue, 7) == [2]
    queue.handle(JobEnded(13, 2))
    assert started(queue, 13) == [3]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, 4), st.sampled_from([5, 5, 20])),
        st.tuples(st.just("mates"), st.integers(1, 4), st.just(5)),
        st.tuples(st.just("alone"), st.integers(1, 4), st.just(5)),
        st.tuples(st.sampled_from(["end", "fail", "cancel", "release"]), st.integers(0, 9)),
        st.tuples(st.just("policy"), st.sampled_from(sorted(POLICIES))),
        st.tuples(st.just("share"), st.integers(1, 3)),
        st.tuples(st.sampled_from([NodesLost, NodesJoined]), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=40,
)


def apply(queue, step, number, now):
    """Delivers a step to the queue."""
    chosen = sorted(queue.jobs)
    other = chosen[step[1] % len(chosen)] if chosen and isinstance(step[1], int) else None
    has_nodes = other is not None and bool(queue.jobs[other].nodes)
    reserved = has_nodes and queue.jobs[other].job.waits_for_mates
    match step:
        case ("submit" | "mates" | "alone" as kind, size, walltime):
            wish = {"mates": {"waits_for_mates": True}, "alone": {"exclusive": True}}.get(
                kind, {}
            )
            submit(queue, number, size, walltime, now, **wish)
        case ("end", _) if has_nodes:
            queue.handle(JobEnded(now, other))
        case ("fail", _) if has_nodes:
            queue.handle(JobFailedToStart(now, other, requeue=True))
        case ("release", _) if reserved and queue.jobs.state(other).name == "RESERVED":
            released = ReservedJobReleased if number % 2 else ReservedJobBegan
            queue.handle(released(now, other))
        case ("cancel", _) if other is not None:
            queue.handle(JobCancelled(now, other))
        case ("policy", name):
            queue.handle(SettingsChanged(now, POLICIES[name], 1000))
        case ("share", rows):
            queue.handle(SharingChanged(now, rows, {}))
        case (kind, node) if kind in (NodesLost, NodesJoined):
            queue.handle(kind(now, ((node, node),)))


@every_policy
@settings(max_examples=60, deadline=None)
@given(_steps, st.integers(1, 3))
def test_no_event_loses_the_order(policy, steps, rows):
    queue, submitted = make(policy, rows), {}
    for now, step in enumerate(steps):
        apply(queue, step, now, now)
        for number, entry in queue.jobs.items():
            submitted.setdefault(number, entry.job.submit_ns)
            assert entry.job.submit_ns == submitted[number]
        waiting = list(queue.waiting)
        assert waiting == sorted(waiting, key=arrival)
        assert {job.number for job in waiting} == {
            number for number, entry in queue.jobs.items() if not entry.nodes
        }
        started(queue, now)
        waiting = list(queue.waiting)
        assert waiting == sorted(waiting, key=arrival)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "wfp"])
@settings(max_examples=60, deadline=None)
@given(_steps, st.integers(1, 3))
def test_first_of_equal_jobs_starts_first(policy, steps, rows):
    """Conservative backfill is left out: a job may be moved up into a gap."""
    queue = make(policy, rows)
    for now, step in enumerate(steps):
        if step[0] in ("policy", "alone", "mates"):
            continue
        apply(queue, step, now, now)
        before = {job.number: job for job in queue.waiting}
        for number in started(queue, now):
            one = before.pop(number)
            for other in before.values():
                equal = (other.size, other.walltime_ns) == (one.size, one.walltime_ns)
                assert not equal or arrival(one) < arrival(other)
