"""EASY backfill of malleable and rigid jobs: examples, and properties of any stream."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_events import Ticked
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, FAIR, LOW_IMPACT
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import Control, Distribution, SizePolicy
from cosched.core.errors import CoschedError
from cosched.sim.malleable.driver import MalleableDomain
from cosched.sim.malleable.policies import run_stream
from cosched.sim.virtual_time import VirtualTime
from tests.unit.cluster.malleable.malleable_streams import Watched, streams, work_done

SIZES = st.builds(
    SizePolicy,
    harvest=st.sampled_from([EVEN, LOW_IMPACT]),
    distribution=st.sampled_from(list(Distribution)),
)


class WatchedEasy(Watched):
    """Notes the reservation after each pass, too."""

    def __init__(self, nodes, sizes):
        super().__init__(nodes, sizes)
        self.queue = QueueMachine(Elastic(((0, nodes - 1),)), Policy(FCFS, Easy, sizes))
        self.promises = []  # (time, job, shadow time)

    def handle(self, event):
        commands = super().handle(event)
        if isinstance(event, Ticked) and not self.queue.place.changes:
            found = self.planner.reservation
            promise = (found[0].number, found[1]) if found else (None, None)
            self.promises.append((event.now_ns, *promise))
        return commands


def run(jobs, nodes, sizes):
    engine = VirtualTime()
    watched = WatchedEasy(nodes, sizes)
    domain = MalleableDomain(engine, jobs, watched)
    engine.run(lambda: None)
    return domain.schedule, watched


@st.composite
def mixed_streams(draw):
    """Some of the jobs are rigid."""
    jobs, nodes = draw(streams())
    rigid = draw(st.sets(st.sampled_from(jobs).map(lambda job: job.number)))
    return [
        replace(job, minimum=job.size) if job.number in rigid else job for job in jobs
    ], nodes


@given(stream=mixed_streams(), sizes=SIZES)
@settings(deadline=None, max_examples=150)
def test_one_run_keeps_all_rules(stream, sizes):
    """``Watched`` checks nodes, minima and ideals besides, after each event."""
    jobs, nodes = stream
    schedule, watched = run(jobs, nodes, sizes)
    check_every_job_runs_once_and_to_its_end(jobs, nodes, schedule, watched)
    check_reservations_hold(schedule, watched)


def check_every_job_runs_once_and_to_its_end(jobs, nodes, schedule, watched):
    assert sorted(watched.started) == [job.number for job in jobs]
    assert watched.queue.place.free == nodes
    for job in jobs:
        assert job.submit_ns <= schedule.start_ns[job.number] < schedule.end_ns[job.number]
        if job.walltime_ns > 1:
            done = work_done(job, watched.history[job.number])
            assert done == pytest.approx(1.0, abs=1e-4)


def check_reservations_hold(schedule, watched):
    """While a job stays the first, its reservation never moves back; it starts by then."""
    for (_, head, shadow_ns), (_, next_head, next_ns) in pairwise(watched.promises):
        if head is None:
            continue
        assert schedule.start_ns[head] <= shadow_ns
        if head == next_head:
            assert next_ns <= shadow_ns


@given(stream=streams(), sizes=SIZES)
@settings(deadline=None, max_examples=100)
def test_rigid_jobs_are_scheduled_as_by_easy(stream, sizes):
    """If no two events are at the same time: the drivers tick differently then."""
    jobs, nodes = stream
    rigid = [
        replace(
            job,
            minimum=job.size,
            submit_ns=job.submit_ns + 101 * job.number,
            walltime_ns=job.walltime_ns + 10_007 * job.number + 1,
        )
        for job in jobs
    ]
    easy = run_stream(rigid, nodes, "ideal-easy")
    moments = [*easy.submit_ns, *easy.end_ns]
    assume(len(moments) == len(set(moments)))
    schedule, _ = run(rigid, nodes, sizes)
    assert schedule.start_ns == easy.start_ns


@given(stream=mixed_streams(), sizes=SIZES)
@settings(deadline=None, max_examples=40)
def test_no_node_idles_beside_jobs_that_want_it(stream, sizes):
    """After an end, unless a growth would cost more than it saves."""
    jobs, nodes = stream
    jobs = [replace(job, cost=type(job.cost)()) for job in jobs]
    schedule, watched = run(jobs, nodes, sizes)
    if sizes.distribution is Distribution.QUEUED_ONLY:
        return
    ideal = {job.number: job.size for job in jobs}
    for at_ns in sorted(set(schedule.end_ns)):
        sizes_then = {
            number: [size for when_ns, size in steps if when_ns <= at_ns][-1]
            for number, steps in watched.history.items()
            if steps[0][0] <= at_ns
        }
        running = {number: size for number, size in sizes_then.items() if size}
        if sum(running.values()) < nodes:
            assert all(size == ideal[number] for number, size in running.items())


def job(number, least, ideal, run_ns, submit_ns=0):
    return MalleableJob(number, ideal, run_ns, submit_ns, minimum=least)


def test_a_later_job_starts_by_a_harvest_without_delay_of_the_first():
    """8 nodes. A rigid job has 4 until 1000, a malleable one 2 to 4. The next wants all 8.
    The last one, rigid with 2 nodes for 100, fits before 1000 if 2 nodes are harvested."""
    jobs = [
        job(0, 4, 4, 1000),
        job(1, 2, 4, 450),
        job(2, 8, 8, 50, 1),
        job(3, 2, 2, 100, 2),
    ]
    schedule, watched = run(jobs, 8, SizePolicy(EVEN, Distribution.FAVOUR_QUEUED))
    assert schedule.start_ns[3] == 2
    # On 2 nodes it would end at 898; it gets the others back, and ends at 500.
    assert watched.history[1] == [(0, 4), (2, 2), (102, 4), (500, 0)]
    assert schedule.start_ns[2] == 1000


def test_a_harvest_that_would_delay_the_first_is_not_made():
    """As above, but the harvested job would end after 1000."""
    jobs = [
        job(0, 4, 4, 1000),
        job(1, 2, 4, 960),
        job(2, 8, 8, 50, 1),
        job(3, 2, 2, 100, 2),
    ]
    schedule, watched = run(jobs, 8, SizePolicy(EVEN, Distribution.FAVOUR_QUEUED))
    assert watched.history[1] == [(0, 4), (960, 0)]
    assert schedule.start_ns[2] == 1000
    assert schedule.start_ns[3] == 1050
    assert watched.planner.counts.would_delay > 0


def test_what_does_not_combine_is_refused():
    place = Elastic(((0, 7),))
    relies = "does not combine with easy: the first job relies on harvests"
    favour = Distribution.FAVOUR_QUEUED
    for sizes, words in (
        (SizePolicy(EVEN, favour, 3), f"degree: {relies}"),
        (SizePolicy(EVEN, favour, None, Control(harvest_limit=1)), "harvest_limit: "),
        (SizePolicy(EVEN, favour, None, Control(protected_ns=1)), "protected: "),
        (SizePolicy(EVEN, favour, None, Control(least_benefit=0.5)), "least_benefit: "),
        (SizePolicy(FAIR, favour), "harvest: fair does not .* want even or low-impact"),
    ):
        with pytest.raises(CoschedError, match=words):
            QueueMachine(place, Policy(FCFS, Easy, sizes))
