"""After a restart the queue takes all jobs that run, wherever they run."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import count, from_numbers
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import EndJob, ReserveJob, StartJob, Why
from cosched.core.cluster.queue.queue_events import (
    JobEnded,
    JobRecovered,
    JobSubmitted,
    NodesDrained,
    NodesJoined,
    NodesLost,
    ReservedJobBegan,
    SharingChanged,
    Ticked,
)
from cosched.core.errors import CoschedError

SIZE = 4
ALL = ((0, SIZE - 1),)


class Domain:
    """A queue in virtual time. running: the jobs that have nodes; out: the nodes out of
    service; prepared: jobs with mates that have not begun."""

    def __init__(self, rows, policy="easy", nodes=SIZE):
        self.rows, self.policy, self.nodes, self.now = rows, policy, nodes, 0
        self.jobs, self.running, self.out, self.prepared = {}, {}, set(), set()
        self._make()

    def _make(self):
        all_nodes = ((0, self.nodes - 1),)
        self.queue = QueueMachine(Rows(all_nodes, self.rows), POLICIES[self.policy], 10**6)

    def submit(self, number, size, *, alone=False, mates=False):
        job = Job(number, size, 10, self.now, exclusive=alone, waits_for_mates=mates)
        self.jobs[number] = job
        self.queue.handle(JobSubmitted(self.now, job))

    def tick(self):
        """Returns the jobs that get nodes now; checks how many share a node."""
        started = {}
        for command in self.queue.handle(Ticked(self.now)):
            if isinstance(command, StartJob | ReserveJob):
                started[command.job.number] = command.nodes
                if isinstance(command, ReserveJob):
                    self.prepared.add(command.job.number)
        for number, nodes in started.items():
            assert number not in self.running
            self.running[number] = nodes
            assert not numbers(nodes) & self.out
        for nodes in started.values():
            for node in numbers(nodes):
                assert len(self.on(node)) <= self.rows, (node, self.running)
        return started

    def on(self, node):
        return {number for number, nodes in self.running.items() if node in numbers(nodes)}

    def end(self, number):
        del self.running[number]
        self.prepared.discard(number)
        self.queue.handle(JobEnded(self.now, number))

    def put(self, kind, node):
        self.queue.handle(kind(self.now, ((node, node),)))
        (self.out.discard if kind is NodesJoined else self.out.add)(node)

    def restart(self, away=(), order=None):
        """Makes the queue again as the controller does after its restart."""
        waiting = self.queue.waiting
        self._make()
        self.queue.handle(NodesDrained(self.now, ((0, self.nodes - 1),)))
        for job in waiting:
            self.queue.handle(JobSubmitted(self.now, job))
        self.out |= set(away)
        for node in set(range(self.nodes)) - self.out:
            self.queue.handle(NodesJoined(self.now, ((node, node),)))
        for number in order or sorted(self.running):
            # The store does not have whether a job that runs began with its mates.
            self.jobs[number] = job = Job(
                number,
                count(self.running[number]),
                10,
                0,
                exclusive=self.jobs[number].exclusive,
                waits_for_mates=number in self.prepared,
            )
            nodes = self.running[number]
            self.queue.handle(JobRecovered(self.now, job, nodes, self.now))

    def finish(self):
        """Ends all jobs, with all nodes in service, and checks that each one ran and that
        all nodes are free then."""
        for node in sorted(self.out):
            self.put(NodesJoined, node)
        self.tick()
        for _ in range(len(self.jobs) + 1):
            for number in sorted(self.running):
                self.end(number)
            self.tick()
        assert not self.queue.waiting
        for row in self.queue.place.all:
            assert row.free == row.capacity == self.nodes
        assert len(self.queue.place.all) == self.rows


def numbers(nodes):
    return {node for first, last in nodes for node in range(first, last + 1)}


def test_jobs_whose_rows_cannot_be_found_by_their_numbers_are_recovered():
    domain = Domain(2, nodes=3)
    domain.running = {2: ((2, 2),), 3: ((0, 0),), 4: ((0, 1),), 5: ((1, 2),)}
    for number, nodes in domain.running.items():
        domain.jobs[number] = Job(number, count(nodes), 10, 0)
    domain.restart()
    domain.submit(6, 1)
    assert domain.tick() == {}
    domain.end(5)
    assert domain.tick().keys() == {6}
    domain.finish()


def test_jobs_that_share_a_node_are_recovered_where_fewer_may():
    domain = Domain(2)
    for number in (1, 2):
        domain.submit(number, SIZE)
    domain.tick()
    domain.rows = 1
    domain.queue.handle(SharingChanged(0, 1, {}))
    domain.restart()
    domain.submit(3, 1)
    assert domain.tick() == {}
    domain.end(1)
    assert domain.tick() == {}
    domain.end(2)
    assert domain.tick().keys() == {3}
    domain.finish()


def test_job_on_a_node_out_of_service_is_recovered_and_ends():
    domain = Domain(1)
    domain.submit(1, 2)
    domain.tick()
    domain.restart(away={1})
    assert domain.queue.free_for(exclusive=False) == 2
    assert domain.queue.handle(NodesLost(0, ((0, 0),))) == (EndJob(1, Why.NODE_LOST),)
    domain.put(NodesJoined, 0)
    domain.end(1)
    assert domain.queue.free_for(exclusive=False) == 3
    domain.finish()


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_exclusive_job_that_shares_is_recovered_beside_the_other_job(order):
    domain = Domain(2)
    for number in (1, 2):
        domain.submit(number, SIZE)
    domain.tick()
    domain.jobs[1] = Job(1, SIZE, 10, 0, exclusive=True)
    domain.restart(order=order)
    domain.submit(3, 1)
    assert domain.tick() == {}
    domain.finish()


@pytest.mark.parametrize(
    ("job", "nodes", "problem"),
    [
        (Job(1, 1, 10, 0), ((0, 0),), "job 1: runs, and cannot be recovered"),
        (Job(2, 2, 10, 0), ((3, 4),), "job 2: has nodes that are not in this domain"),
        (Job(2, 1, 10, 0), ((1, 2),), "job 2 wants 1 nodes, but the agents report 2"),
    ],
)
def test_report_that_cannot_be_is_refused_and_changes_nothing(job, nodes, problem):
    domain = Domain(2)
    domain.submit(1, 1)
    domain.tick()
    with pytest.raises(CoschedError, match=problem):
        domain.queue.handle(JobRecovered(0, job, nodes, 0))
    domain.finish()


_nodes = st.integers(0, SIZE - 1)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(1, SIZE), st.sampled_from("ags ")),
        st.tuples(st.just("end"), st.integers(0, 99)),
        st.tuples(st.just("begin"), st.integers(0, 99)),
        st.tuples(st.just("share"), st.integers(1, 4)),
        st.tuples(st.sampled_from([NodesDrained, NodesJoined]), _nodes),
        st.tuples(st.just("restart"), st.sets(_nodes, max_size=2), st.booleans()),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(_steps, st.sampled_from(sorted(POLICIES)), st.integers(1, 3))
def test_restart_takes_all_jobs_and_gives_no_node_more(steps, policy, rows):
    domain, number = Domain(rows, policy), 0
    for step in steps:
        match step:
            case ("submit", size, kind):
                number += 1
                alone = kind == "a" or (kind == "s" and domain.rows == 1)
                domain.submit(number, size, alone=alone, mates=kind in "gs")
            case ("end", which) if domain.running:
                running = sorted(domain.running)
                domain.end(running[which % len(running)])
            case ("begin", which) if domain.prepared:
                prepared = sorted(domain.prepared)
                began = prepared[which % len(prepared)]
                domain.prepared.remove(began)
                domain.queue.handle(ReservedJobBegan(domain.now, began))
            case ("share", most):
                domain.rows = most
                domain.queue.handle(SharingChanged(domain.now, most, {}))
            case ("restart", away, backwards):
                order = sorted(domain.running, reverse=backwards)
                if any(j.waits_for_mates and j.exclusive for j in domain.queue.waiting):
                    continue  # the controller makes no such jobs
                domain.restart(away, order)
            case (kind, node) if kind in (NodesDrained, NodesJoined):
                domain.put(kind, node)
        domain.now += 1
        domain.tick()
    domain.finish()


def test_all_sets_of_two_nodes_are_recovered_in_any_order():
    """More than each row can have: as after a change of the settings while all ran."""
    queue = QueueMachine(Rows(ALL, 1), POLICIES["easy"], 10)
    queue.handle(NodesDrained(0, ALL))
    sets = [from_numbers({a, b}) for a in range(SIZE) for b in range(a)]
    for number, nodes in enumerate(sets):
        queue.handle(JobRecovered(0, Job(number, 2, 10, 0), nodes, 0))
    for number in range(len(sets)):
        queue.handle(JobEnded(0, number))
    queue.handle(NodesJoined(0, ALL))
    queue.handle(Ticked(0))
    assert [row.free for row in queue.place.all] == [SIZE]
