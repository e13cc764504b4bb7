"""Halves of nodes that come, go and fail, as in a running domain."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.placement import PLACEMENTS
from cosched.core.cluster.queue.halves.sharing_job import SharingJob, whole_nodes_job
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import from_numbers, numbers
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob
from cosched.core.cluster.queue.queue_events import (
    HalvesLimited,
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    NodesLost,
    NodesRemoved,
    Ticked,
)
from cosched.core.cluster.queue.states import State
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import SHARED, Resource

MEMORY, CPU = frozenset({Resource.MEMORY}), frozenset({Resource.CPU})


def machine(nodes=4, placement="anyhow", policy="easy"):
    place = Halves(((0, nodes - 1),), PLACEMENTS[placement], Learner({}))
    return QueueMachine(place, POLICIES[policy])


def sharing(number, halves, limits=CPU, walltime=10, nodes=0):
    return SharingJob(
        number, halves, walltime, number, application="a", limits=limits, nodes=nodes
    )


def alone(number, nodes, walltime=10):
    return whole_nodes_job(Job(number, nodes, walltime, number, exclusive=True))


def started(queue, now=0):
    """Returns the nodes and halves of each job that starts, by number."""
    return {
        command.job.number: (numbers(command.nodes), numbers(command.halves))
        for command in queue.handle(Ticked(now))
        if isinstance(command, StartJob)
    }


def submit(queue, *jobs):
    for job in jobs:
        queue.handle(JobSubmitted(0, job))


def test_jobs_without_a_word_have_whole_nodes_among_those_that_share():
    queue = machine(3)
    submit(queue, sharing(1, 2, MEMORY), alone(2, 1), sharing(3, 2))
    assert started(queue) == {1: ([0, 1], [0, 2]), 2: ([2], [4, 5]), 3: ([0, 1], [1, 3])}
    submit(queue, alone(4, 1), sharing(5, 1))
    assert started(queue) == {}


def test_job_takes_whole_nodes_if_its_halves_are_not_free():
    queue = machine(3)
    submit(queue, alone(1, 2), sharing(2, 2))
    assert started(queue) == {1: ([0, 1], [0, 1, 2, 3]), 2: ([2], [4, 5])}


def test_odd_halves_need_as_many_whole_nodes_as_the_job_says():
    # Halves of one and two slots: five tasks are five halves, or two nodes of three.
    queue = machine(2)
    submit(queue, SharingJob(1, 4, 9, 0, application="", limits=CPU, halves=5, nodes=2))
    assert started(queue) == {1: ([0, 1], [0, 1, 2, 3])}


def test_no_job_starts_on_a_node_out_of_service():
    queue = machine(3)
    submit(queue, sharing(1, 3))
    started(queue)
    queue.handle(NodesDrained(1, ((0, 1),)))
    assert queue.place.in_service == 1
    submit(queue, sharing(2, 1), sharing(3, 1))
    assert started(queue, 1) == {2: ([2], [5])}
    queue.handle(NodesJoined(2, ((1, 1),)))
    assert started(queue, 2) == {3: ([1], [3])}
    queue.handle(JobEnded(3, 1))
    assert queue.place.free == 2  # the top halves of nodes 1 and 2


def test_lost_node_ends_the_jobs_on_both_halves():
    queue = machine(2)
    submit(queue, sharing(1, 2), sharing(2, 1), sharing(3, 1))
    assert len(started(queue)) == 3
    ends = queue.handle(NodesLost(1, ((0, 0),)))
    assert {command.number for command in ends if isinstance(command, EndJob)} == {1, 2}
    for number in (1, 2):
        queue.handle(JobEnded(2, number))
    assert (queue.place.free, queue.place.free_alone) == (1, 0)


def test_nodes_may_be_added_and_removed():
    queue = machine(1)
    with pytest.raises(CoschedError, match="job 1 wants 3 nodes; the machine has 1 nodes"):
        submit(queue, alone(1, 3))
    queue.handle(NodesAdded(0, ((4, 5),)))
    submit(queue, alone(1, 3))
    assert started(queue) == {}
    queue.handle(NodesJoined(1, ((4, 5),)))
    assert started(queue, 1)[1] == ([0, 4, 5], [0, 1, 8, 9, 10, 11])
    queue.handle(JobEnded(2, 1))
    queue.handle(NodesRemoved(2, ((0, 0),)))
    assert (queue.place.total, queue.place.in_service) == (4, 2)
    submit(queue, sharing(2, 2))
    assert started(queue, 2) == {2: ([4, 5], [8, 10])}


def test_restored_job_keeps_its_halves():
    queue = machine(2)
    queue.handle(NodesDrained(0, ((0, 1),)))
    job = sharing(7, 2)
    queue.handle(JobRecovered(0, job, ((0, 1),), 0, halves=from_numbers((1, 3))))
    queue.handle(NodesJoined(0, ((0, 1),)))
    submit(queue, sharing(8, 2, MEMORY))
    assert started(queue) == {8: ([0, 1], [0, 2])}
    assert numbers(queue.place.halves_of(7)) == [1, 3]


def test_restored_jobs_may_overlap_and_no_job_starts_there():
    """Before the domain had halves, two jobs could take turns on a node."""
    queue = machine(1)
    for number in (1, 2):
        queue.handle(JobRecovered(0, alone(number, 1), ((0, 0),), 0))
    submit(queue, sharing(3, 1))
    queue.handle(JobEnded(1, 1))
    assert started(queue, 1) == {}
    queue.handle(JobEnded(2, 2))
    assert 3 in started(queue, 2)
    assert queue.place.free == 1


def test_restored_job_with_nodes_of_no_domain_is_refused():
    with pytest.raises(CoschedError, match="job 1: has nodes that are not in this domain"):
        machine(1).handle(JobRecovered(0, alone(1, 1), ((3, 3),), 0))


@pytest.mark.parametrize("policy", ["fcfs", "easy", "largest"])
def test_large_job_is_not_passed_over_for_ever(policy):
    queue = machine(2, policy=policy)
    submit(queue, sharing(1, 1), alone(2, 2), sharing(3, 1, walltime=1000))
    first = started(queue)
    if policy == "largest":
        assert 2 in first
        return
    assert 3 not in first
    assert forecast(queue, 0)[2] == 10


@pytest.mark.parametrize("policy", ["fcfs", "easy", "largest"])
def test_job_of_more_nodes_than_are_in_service_stops_no_other(policy):
    queue = machine(3, policy=policy)
    queue.handle(NodesDrained(0, ((2, 2),)))
    submit(queue, sharing(1, 3, nodes=3), sharing(2, 1))
    assert started(queue) == {2: ([0], [0])}
    queue.handle(NodesJoined(1, ((2, 2),)))
    assert 1 in started(queue, 1)


def test_forecast_leaves_the_halves_as_they_are():
    queue = machine(1)
    submit(queue, sharing(1, 1), alone(2, 1), sharing(3, 1))
    assert set(started(queue)) == {1, 3}
    assert forecast(queue, 0) == {2: 10}
    assert queue.place.free == 0


class HalvesUnderChange(RuleBasedStateMachine):
    """Any events in any order. Each half has one job; free halves are counted right."""

    def __init__(self):
        super().__init__()
        self.queue = machine(4, "labels")
        self.now, self.next, self.part = 0, 1, 1.0
        self.held = {}
        self.service, self.known = set(range(4)), set(range(4))
        self.jobs = {}

    def _feed(self, event):
        for command in self.queue.handle(event):
            if isinstance(command, StartJob):
                self._start(command)

    def _start(self, command):
        job, halves = command.job, numbers(command.halves)
        nodes = numbers(command.nodes)
        assert set(nodes) <= self.service
        assert sorted({half >> 1 for half in halves}) == nodes
        spread = job.shares and len(halves) == job.spread == len(nodes)
        assert spread or (len(nodes), len(halves)) == (job.whole, 2 * job.whole)
        if self.part < 1.0 and job.size > max(1, 2 * self.part * len(self.service)):
            assert len(halves) == 2 * len(nodes)
        for other, (theirs, limits) in self.held.items():
            assert not set(halves) & set(theirs)
            if {half ^ 1 for half in halves} & set(theirs):
                assert not limits & job.limits & SHARED, other
        self.held[job.number] = (halves, job.limits)

    @rule(
        size=st.integers(1, 5),
        limits=st.sampled_from((MEMORY, CPU, frozenset())),
        shares=st.booleans(),
    )
    def submit(self, size, limits, shares):
        number, self.next = self.next, self.next + 1
        job = sharing(number, size, limits) if shares else alone(number, size)
        try:
            self._feed(JobSubmitted(self.now, job))
        except CoschedError:
            assert job.whole > len(self.known)

    @rule(part=st.sampled_from((0.01, 0.25, 0.5, 1.0)))
    def limit(self, part):
        self.part = part
        self._feed(HalvesLimited(self.now, part))

    @rule()
    def tick(self):
        self.now += 1
        self._feed(Ticked(self.now))

    @rule(data=st.data())
    def end(self, data):
        if self.held:
            number = data.draw(st.sampled_from(sorted(self.held)))
            self.held.pop(number)
            again = data.draw(st.booleans())
            running = self.queue.jobs.state(number) is State.RUNNING
            if again and running:
                self._feed(JobFailedToStart(self.now, number, requeue=True))
            else:
                self._feed(JobEnded(self.now, number))

    @rule(data=st.data())
    def cancel(self, data):
        waiting = [job.number for job in self.queue.waiting]
        if waiting:
            number = data.draw(st.sampled_from(waiting))
            self._feed(JobCancelled(self.now, number))

    @rule(node=st.integers(0, 5), lost=st.booleans())
    def withdraw(self, node, lost):
        if node in self.known:
            self.service.discard(node)
            kind = NodesLost if lost else NodesDrained
            self._feed(kind(self.now, ((node, node),)))

    @rule(node=st.integers(0, 5))
    def join(self, node):
        if node not in self.known:
            self.known.add(node)
            self._feed(NodesAdded(self.now, ((node, node),)))
        self.service.add(node)
        self._feed(NodesJoined(self.now, ((node, node),)))

    @invariant()
    def counts_are_right(self):
        place = self.queue.place
        taken = {half for halves, _ in self.held.values() for half in halves}
        free = [
            half
            for node in self.service
            for half in (2 * node, 2 * node + 1)
            if half not in taken
        ]
        assert place.free == len(free)
        assert place.capacity == 2 * len(self.service)
        assert place.total == 2 * len(self.known)


TestHalvesUnderChange = HalvesUnderChange.TestCase
TestHalvesUnderChange.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None
)
