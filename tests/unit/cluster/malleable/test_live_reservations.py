"""Reservations of EASY hold also if each change of a size takes its time."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count as ascending
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.order import FCFS
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.easy import Easy
from cosched.core.cluster.queue.policies import Policy
from cosched.core.cluster.queue.queue_commands import ResizeJob, StartJob, WakeAt
from cosched.core.cluster.queue.queue_events import (
    BoundsChanged,
    JobEnded,
    JobSubmitted,
    ResizeDone,
    ResizeRefused,
    SizeWanted,
    Ticked,
)
from cosched.core.cluster.queue.sizes.execution import FREE
from cosched.core.cluster.queue.sizes.harvest_policies import EVEN, LOW_IMPACT
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.settings import (
    MOLDABLE,
    Control,
    Distribution,
    SizePolicy,
)
from tests.unit.cluster.malleable.malleable_streams import MOMENT, streams

CHANGE = 3 * MOMENT  # the longest time of a change
CONTROL = Control(change_ns=CHANGE, spared_ns=2 * MOMENT)
SIZES = st.builds(
    SizePolicy,
    harvest=st.sampled_from([EVEN, LOW_IMPACT]),
    distribution=st.sampled_from(list(Distribution)),
    control=st.just(CONTROL),
)
#: How long a change takes, as eighths of CHANGE, and its job stands still, of that time.
TIMES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 8)), min_size=1, max_size=8)


class Played:
    """Agents whose changes take time. refusals: which changes are refused, in turn."""

    def __init__(self, jobs, nodes, sizes, times, refusals=(False,)):
        self.queue = QueueMachine(Elastic(((0, nodes - 1),)), Policy(FCFS, Easy, sizes))
        self.now = 0
        self.jobs = {job.number: job for job in jobs}
        self.times, self.refusals = cycle(times), cycle(refusals)
        self.events, self.order = [], ascending()
        self.start_ns, self.ended, self.grown = {}, set(), 0
        self.refused_ns = []
        self.promises = []  # (time, first job, its shadow time)
        for job in jobs:
            self.at(job.submit_ns, JobSubmitted(job.submit_ns, job))

    def at(self, at_ns, event):
        heappush(self.events, (at_ns, next(self.order), event))

    def run(self):
        rounds = 0
        while self.events:
            rounds += 1
            assert rounds < 20_000, "the jobs do not end"
            self.now, _, event = heappop(self.events)
            self.take(event)
        assert self.ended == self.jobs.keys()

    def take(self, event):
        match event:
            case JobEnded(number=number):
                run = self.queue.place.running.get(number)
                if number in self.ended or run is None or run.before is not None:
                    return  # its change ends first
                if run.end_ns > self.now:
                    return  # a later event follows
                self.ended.add(number)
                self.queue.handle(JobEnded(self.now, number))
            case ResizeJob(number=number, nodes=nodes):
                _, stood = next(self.times)
                run = self.queue.place.running[number]
                took_ns = self.now - run.before.ordered_ns
                if next(self.refusals):
                    self.refused_ns.append(self.now)
                    self.queue.handle(ResizeRefused(self.now, number))
                else:
                    self.grown += run.held > run.before.held
                    cost_ns = took_ns * stood // 8
                    self.queue.handle(ResizeDone(self.now, number, nodes, cost_ns))
                self.expect_end(number)
            case JobSubmitted() | SizeWanted() | BoundsChanged():
                self.queue.handle(event)
        self.tick()

    def tick(self):
        for command in self.queue.handle(Ticked(self.now)):
            match command:
                case StartJob(job=job):
                    self.start_ns[job.number] = self.now
                    self.expect_end(job.number)
                case ResizeJob():
                    part, _ = next(self.times)
                    self.at(self.now + CHANGE * part // 8, command)
                case WakeAt(at_ns=at_ns) if at_ns is not None:
                    self.at(at_ns, None)
        found = self.queue.planner.reservation
        if found is not None:
            self.promises.append((self.now, found[0].number, found[1]))

    def expect_end(self, number):
        run = self.queue.place.running[number]
        self.at(max(self.now, run.end_ns), JobEnded(self.now, number))


@st.composite
def mixed(draw):
    """Some jobs are rigid. The costs of changes come from ``TIMES``."""
    jobs, nodes = draw(streams(most=12))
    rigid = draw(st.sets(st.sampled_from(jobs).map(lambda job: job.number)))
    jobs = [
        replace(
            job,
            cost=FREE,
            walltime_ns=draw(st.integers(1, 40)) * MOMENT,
            minimum=job.size if job.number in rigid else job.minimum,
        )
        for job in jobs
    ]
    return jobs, nodes


@given(stream=mixed(), sizes=st.one_of(SIZES, st.just(MOLDABLE)), times=TIMES)
@settings(deadline=None, max_examples=75)
def test_no_change_delays_the_reserved_start(stream, sizes, times):
    """The first job starts by each of its reservations, or as soon as a harvest that begins
    then is done. The reservation itself never moves back."""
    jobs, nodes = stream
    played = Played(jobs, nodes, sizes, times)
    played.run()
    before = None
    for now_ns, head, shadow_ns in played.promises:
        assert played.start_ns[head] <= shadow_ns + CHANGE, (head, now_ns, shadow_ns)
        if before is not None and before[0] == head:
            assert shadow_ns <= max(before[1], now_ns)
        before = head, shadow_ns


@given(
    stream=mixed(),
    sizes=SIZES,
    times=TIMES,
    refusals=st.lists(st.booleans(), min_size=1, max_size=8),
)
@settings(deadline=None, max_examples=50)
def test_all_jobs_run_if_some_refuse(stream, sizes, times, refusals):
    """A job counts with all its nodes after it has refused, until a change is done."""
    jobs, nodes = stream
    played = Played(jobs, nodes, sizes, times, refusals)
    played.run()
    for now_ns, head, shadow_ns in played.promises:
        # Refusals after the promise can put it off; others were counted.
        if not any(at_ns >= now_ns for at_ns in played.refused_ns):
            assert played.start_ns[head] <= shadow_ns + CHANGE


def job(number, least, ideal, run, submit=0):
    times = {"walltime_ns": run * MOMENT, "submit_ns": submit * MOMENT}
    return MalleableJob(number=number, size=ideal, minimum=least, **times)


SLOWEST = [(7, 8)]
FAVOUR = SizePolicy(EVEN, Distribution.FAVOUR_QUEUED, control=CONTROL)


def test_free_nodes_are_lent_if_they_can_be_back_in_time():
    """8 nodes. Job 0 has 4 until 40, job 3 has 2 until 5, and job 1 the others. Job 2 wants
    6. Job 1 gets the nodes of job 3, and gives them back."""
    jobs = [job(0, 4, 4, 40), job(3, 2, 2, 5), job(1, 2, 4, 60), job(2, 6, 6, 5, 1)]
    played = Played(jobs, 8, FAVOUR, SLOWEST)
    played.run()
    assert played.grown
    assert 40 * MOMENT < played.start_ns[2] <= 40 * MOMENT + CHANGE


def test_free_nodes_are_kept_if_they_could_not_be_back_in_time():
    """Job 1 could grow when job 3 ends at 38. A growth may take until 41."""
    jobs = [job(0, 4, 4, 40), job(3, 2, 2, 38), job(1, 2, 4, 60), job(2, 6, 6, 5, 1)]
    played = Played(jobs, 8, FAVOUR, SLOWEST)
    played.run()
    assert played.start_ns[2] == 40 * MOMENT


def test_an_owner_s_greater_minimum_waits_for_nodes_that_delay_no_reserved_job():
    jobs = [job(0, 4, 4, 40), job(3, 2, 2, 30), job(1, 2, 2, 60), job(2, 6, 6, 5, 1)]
    played = Played(jobs, 8, FAVOUR, SLOWEST)
    played.at(2 * MOMENT, BoundsChanged(2 * MOMENT, 1, 4, 4))
    played.run()
    assert played.start_ns[2] == 40 * MOMENT
