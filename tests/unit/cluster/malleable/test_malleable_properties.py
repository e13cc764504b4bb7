"""Checks properties of malleable jobs for any stream and policy."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from cosched.core.cluster.queue.sizes.execution import FREE, AdaptationCost
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, LOW_IMPACT, NEVER
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import Distribution, SizePolicy
from cosched.sim.malleable.policies import run_stream
from tests.unit.cluster.malleable.malleable_streams import (
    COSTS,
    UNCONTROLLED,
    WatchedNodes,
    policies,
    run,
    streams,
    work_done,
)


@given(stream=streams(), policy=policies())
@settings(deadline=None, max_examples=120)
def test_one_run_keeps_all_rules(stream, policy):
    """``Watched`` checks nodes, minima and ideals besides, after each event."""
    jobs, nodes = stream
    schedule, scheduler = run(jobs, nodes, policy)
    check_every_job_runs_once_in_order_and_to_its_end(jobs, nodes, schedule, scheduler)
    check_a_job_ends_when_its_work_is_done(jobs, scheduler)
    check_control_limits_harvests(jobs, policy, schedule, scheduler)
    check_a_young_job_is_protected(policy, schedule, scheduler)


def check_every_job_runs_once_in_order_and_to_its_end(jobs, nodes, schedule, scheduler):
    assert scheduler.started == [job.number for job in jobs]
    assert not scheduler.planner.running
    assert not scheduler.queue.waiting
    assert scheduler.queue.place.free == nodes
    for job in jobs:
        assert job.submit_ns <= schedule.start_ns[job.number] < schedule.end_ns[job.number]
        history = scheduler.history[job.number]
        assert history[0][0] == schedule.start_ns[job.number]
        assert history[-1] == (schedule.end_ns[job.number], 0)


def check_a_job_ends_when_its_work_is_done(jobs, scheduler):
    for job in jobs:
        if job.walltime_ns > 1:
            done = work_done(job, scheduler.history[job.number])
            assert done == pytest.approx(1.0, abs=1e-4)


def check_control_limits_harvests(jobs, policy, schedule, scheduler):
    for job in jobs:
        sizes = [size for _, size in scheduler.history[job.number]][:-1]
        shrinks = sum(after < before for before, after in pairwise(sizes))
        assert schedule.harvests[job.number] == shrinks
        limit = policy.control.harvest_limit
        assert limit is None or shrinks <= limit
        if policy.harvest is NEVER:
            assert not shrinks


def check_a_young_job_is_protected(policy, schedule, scheduler):
    for number, start_ns in enumerate(schedule.start_ns):
        steps = scheduler.history[number]
        for (_, before), (at_ns, after) in pairwise(steps):
            if 0 < after < before:
                assert at_ns - start_ns >= policy.control.protected_ns


@given(stream=streams(), policy=policies(), lasts=COSTS)
@settings(deadline=None, max_examples=80)
def test_every_job_runs_once_while_changes_last(stream, policy, lasts):
    jobs, nodes = stream
    schedule, scheduler = run(jobs, nodes, policy, WatchedNodes, lasts)
    assert scheduler.started == [job.number for job in jobs]
    assert not scheduler.planner.running
    assert not scheduler.queue.waiting
    assert not scheduler.queue.place.changes
    assert scheduler.queue.place.free == nodes
    for job in jobs:
        assert job.submit_ns <= schedule.start_ns[job.number] < schedule.end_ns[job.number]


def test_a_start_waits_for_a_change_that_lasts():
    one = MalleableJob(number=0, minimum=1, size=4, walltime_ns=1000, submit_ns=0)
    jobs = [one, replace(one, number=1)]
    policy = SizePolicy(harvest=EVEN, distribution=Distribution.QUEUED_ONLY)
    at_once, _ = run(jobs, 4, policy)
    assert list(at_once.start_ns) == [0, 0]
    later, _ = run(jobs, 4, policy, WatchedNodes, AdaptationCost(base_ns=100))
    assert list(later.start_ns) == [0, 100]
    # The first has four nodes for 100 ns, then three. Nothing is given back to it (FQ).
    assert list(later.end_ns) == [100 + 900 * 4 // 3, 100 + 1000 * 4]


@given(stream=streams(), policy=policies())
@settings(deadline=None, max_examples=40)
def test_the_same_stream_has_the_same_schedule(stream, policy):
    jobs, nodes = stream
    (one, first), (other, second) = (run(jobs, nodes, policy) for _ in range(2))
    assert (one.start_ns, one.end_ns) == (other.start_ns, other.end_ns)
    assert first.history == second.history
    assert one.counts == other.counts


@given(stream=streams(), policy=policies(UNCONTROLLED))
@settings(deadline=None, max_examples=40)
def test_no_node_idles_beside_jobs_that_want_it(stream, policy):
    """After an end; an arrival takes what it can of what is free."""
    jobs, nodes = stream
    _, scheduler = run(jobs, nodes, policy)
    if policy.distribution is Distribution.QUEUED_ONLY:
        return
    ideal = {job.number: job.size for job in jobs}
    times = sorted({at_ns for steps in scheduler.history.values() for at_ns, _ in steps})
    for at_ns in times:
        sizes = {
            number: [size for when_ns, size in steps if when_ns <= at_ns][-1]
            for number, steps in scheduler.history.items()
            if steps[0][0] <= at_ns
        }
        running = {number: size for number, size in sizes.items() if size}
        if sum(running.values()) < nodes:
            assert all(size == ideal[number] for number, size in running.items())


@given(stream=streams())
@settings(deadline=None, max_examples=40)
def test_without_a_limit_both_distributions_are_the_same(stream):
    """As the paper says of its Figure 10: the degree comes first in both."""
    jobs, nodes = stream
    for harvest in (EVEN, LOW_IMPACT):
        ends = [
            run(jobs, nodes, SizePolicy(harvest, distribution))[0].end_ns
            for distribution in (Distribution.FAVOUR_RUNNING, Distribution.FAVOUR_QUEUED)
        ]
        assert ends[0] == ends[1]


@given(stream=streams(), policy=policies())
@settings(deadline=None, max_examples=40)
def test_jobs_that_want_all_or_nothing_are_a_plain_queue(stream, policy):
    """With the minimum at the ideal nothing can be harvested or given."""
    jobs, nodes = stream
    rigid = [replace(job, minimum=job.size) for job in jobs]
    schedule, scheduler = run(rigid, nodes, policy)
    queue = run_stream(rigid, nodes, "ideal-only")
    assert scheduler.resizes == 0
    assert (schedule.start_ns, schedule.end_ns) == (queue.start_ns, queue.end_ns)


@given(stream=streams())
@settings(deadline=None, max_examples=40)
def test_moldable_jobs_keep_their_size(stream):
    jobs, nodes = stream
    free = [replace(job, cost=FREE) for job in jobs]
    moldable = run_stream(free, nodes, "moldable")
    assert not any(moldable.harvests)
    assert moldable.counts.gifts == 0
    assert all(
        start_ns >= job.submit_ns
        for job, start_ns in zip(jobs, moldable.start_ns, strict=True)
    )
