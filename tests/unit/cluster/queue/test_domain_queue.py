"""The queue of a live domain under cancellations, lost nodes and restarts."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import FreeNodes, common, union, without
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob, WakeAt, Why
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    NodesDrained,
    NodesJoined,
    NodesLost,
    Ticked,
)
from cosched.core.errors import CoschedError
from tests.unit.cluster.queue.queue_workloads import ALL, OVERRUN

GRACE = 3
MACHINE = 8
every_policy = pytest.mark.parametrize("policy", ALL.values(), ids=ALL)
SOME = settings(max_examples=60, deadline=None)
NODES = st.sets(st.integers(0, MACHINE - 1), min_size=1, max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, MACHINE), st.integers(1, 9)),
        st.tuples(st.just("end"), st.integers(0, 30)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("fail"), st.integers(0, 30), st.booleans()),
        st.tuples(st.just("lose"), NODES),
        st.tuples(st.just("drain"), NODES),
        st.tuples(st.just("join"), NODES),
        st.tuples(st.just("wait"), st.integers(1, 5)),
    ),
    max_size=40,
)


def members(intervals):
    return {node for first, last in intervals for node in range(first, last + 1)}


def intervals(nodes):
    free = FreeNodes(())
    for node in sorted(nodes):
        free.give(((node, node),))
    return free.intervals


class Machine:
    """Carries out the commands of a queue, and checks the invariants after each."""

    def __init__(self, policy):
        self.queue = QueueMachine(Ledger(((0, MACHINE - 1),), OVERRUN), policy, GRACE)
        self.now = 0
        self.service = set(range(MACHINE))
        self.waiting, self.running, self.since = {}, {}, {}
        self.ordered, self.over, self.wake = {}, set(), None
        self._number = 0

    def submit(self, size, walltime):
        job = Job(self._number, size, walltime, self.now)
        self._number += 1
        self.waiting[job.number] = job
        self._give(JobSubmitted(self.now, job))

    def end(self, which):
        if self.running:
            number = sorted(self.running)[which % len(self.running)]
            self._forget(number)
            self._give(JobEnded(self.now, number))

    def cancel(self, which):
        jobs = sorted({**self.waiting, **self.running})
        if jobs:
            number = jobs[which % len(jobs)]
            if self.waiting.pop(number, None):
                self.over.add(number)
            self._give(JobCancelled(self.now, number))

    def fail(self, which, requeue):
        if self.running:
            number = sorted(self.running)[which % len(self.running)]
            job, _ = self.running[number]
            ordered = number in self.ordered
            self._forget(number)
            if requeue and not ordered:
                self.over.discard(number)
                self.waiting[number] = job
            self._give(JobFailedToStart(self.now, number, requeue))

    def lose(self, nodes):
        hit = {n for n, (_, at) in self.running.items() if at & nodes}
        self.service -= nodes
        before = set(self.ordered)
        self._give(NodesLost(self.now, intervals(nodes)))
        assert set(self.ordered) - before == hit - before

    def drain(self, nodes):
        self.service -= nodes
        before = dict(self.ordered)
        self._give(NodesDrained(self.now, intervals(nodes)))
        assert self.ordered == before

    def join(self, nodes):
        self.service |= nodes
        self._give(NodesJoined(self.now, intervals(nodes)))

    def wait(self, moments):
        for _ in range(moments):
            self.now += 1
            self.tick()

    def tick(self):
        self._give(Ticked(self.now))
        late = {
            number
            for number, since in self.since.items()
            if since + self.running[number][0].walltime_ns + GRACE <= self.now
        }
        assert late <= set(self.ordered)
        assert self.wake is None or self.wake > self.now

    def _forget(self, number):
        del self.running[number], self.since[number]
        self.ordered.pop(number, None)
        self.over.add(number)

    def _give(self, event):
        for command in self.queue.handle(event):
            match command:
                case StartJob(job, nodes):
                    taken = members(nodes)
                    assert self.waiting.pop(job.number) == job
                    assert len(taken) == job.size
                    assert taken <= self.service
                    for _, held in self.running.values():
                        assert not taken & held
                    self.running[job.number] = (job, taken)
                    self.since[job.number] = self.now
                case EndJob(number, why):
                    assert number in self.running
                    assert number not in self.ordered
                    self.ordered[number] = why
                case WakeAt(at):
                    self.wake = at
        used = {node for _, held in self.running.values() for node in held}
        assert self.queue.place.free == len(self.service - used)
        assert self.queue.place.capacity == len(self.service)
        assert {job.number for job in self.queue.waiting} == set(self.waiting)


@every_policy
@given(steps=STEPS)
@SOME
def test_no_job_is_lost_and_no_node_used_twice(policy, steps):
    machine = Machine(policy)
    for name, *words in steps:
        getattr(machine, name)(*words)
        machine.tick()
    machine.join(set(range(MACHINE)))
    while machine.waiting or machine.running:
        machine.end(0)
        machine.wait(1)
    assert machine.over == set(range(machine._number))
    assert machine.queue.place.free == MACHINE


@every_policy
def test_large_job_waits_for_nodes_to_return(policy):
    machine = Machine(policy)
    machine.lose({7})
    machine.submit(8, 5)
    machine.submit(2, 5)
    machine.tick()
    assert set(machine.waiting) == {0}, "the large job keeps no other one waiting"
    machine.end(0)
    machine.join({7})
    machine.tick()
    assert set(machine.running) == {0}


def test_job_ends_after_its_walltime_and_grace():
    machine = Machine(ALL["fcfs-Easy"])
    machine.submit(1, 4)
    machine.tick()
    assert machine.wake == 4 + GRACE
    machine.wait(4 + GRACE)
    assert machine.ordered == {0: Why.WALLTIME}
    machine.cancel(0)
    assert machine.ordered == {0: Why.WALLTIME}, "it is ordered to end once"


def test_running_jobs_are_recovered():
    machine = Machine(ALL["fcfs-Easy"])
    job = Job(5, 3, 10, 0)
    machine.now = 7
    machine.queue.handle(JobRecovered(7, job, ((2, 4),), 1))
    machine.queue.handle(JobSubmitted(7, Job(6, 6, 5, 7)))
    wake = machine.queue.handle(Ticked(7))
    assert wake == (WakeAt(1 + 10 + GRACE),), "the other job does not fit beside it"
    with pytest.raises(CoschedError, match="runs, and cannot be recovered"):
        machine.queue.handle(JobRecovered(7, job, ((2, 4),), 1))
    with pytest.raises(CoschedError, match="some are not free"):
        machine.queue.handle(JobRecovered(7, Job(8, 1, 10, 0), ((3, 3),), 1))
    with pytest.raises(CoschedError, match="wants 2 nodes, but the agents report 1"):
        machine.queue.handle(JobRecovered(7, Job(8, 2, 10, 0), ((7, 7),), 1))
    machine.queue.handle(JobEnded(8, 5))
    (start, _) = machine.queue.handle(Ticked(8))
    assert start.job.number == 6


@pytest.mark.parametrize(
    "event", [JobCancelled(0, 9), JobEnded(0, 9), JobFailedToStart(0, 9, requeue=True)]
)
def test_unknown_job_is_named(event):
    with pytest.raises(CoschedError, match="job 9: neither waits nor runs"):
        Machine(ALL["fcfs-Easy"]).queue.handle(event)


@given(st.sets(st.integers(0, 20)), st.sets(st.integers(0, 20)))
def test_sets_of_nodes(one, other):
    first, second = intervals(one), intervals(other)
    assert members(common(first, second)) == one & other
    assert members(without(first, second)) == one - other
    assert union(first, second) == intervals(one | other)
