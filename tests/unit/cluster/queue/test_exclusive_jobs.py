"""Tests of jobs that want their nodes alone, among jobs that share nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import common
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob, Why
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    NodesDrained,
    NodesJoined,
    NodesLost,
    RulesChanged,
    Ticked,
)
from cosched.core.cluster.queue.rules import PassRules
from cosched.core.errors import CoschedError

NODES = ((0, 3),)


class Domain:
    """A queue whose jobs run as long as they may, in virtual time. starts: (time, nodes) of
    each job; ordered: how often each was ordered to end."""

    def __init__(self, rows=2, policy="easy"):
        self.queue = QueueMachine(Rows(NODES, rows), POLICIES[policy], grace_ns=10**6)
        self.jobs, self.starts, self.running, self.ordered = {}, {}, {}, {}
        self.now = 0

    def submit(self, number, size, walltime=10, *, alone=False):
        job = Job(number, size, walltime, self.now, exclusive=alone)
        self.jobs[number] = job
        self.handle(JobSubmitted(self.now, job))

    def handle(self, event):
        for command in self.queue.handle(event):
            if isinstance(command, StartJob):
                self._start(command)
            elif isinstance(command, EndJob):
                self.ordered[command.number] = self.ordered.get(command.number, 0) + 1
                assert self.ordered[command.number] == 1

    def tick(self):
        self.handle(Ticked(self.now))

    def end(self, number):
        del self.running[number]
        self.handle(JobEnded(self.now, number))

    def advance(self, until):
        """Ends the jobs whose time is over until then. Those of one moment end before the
        next pass, which would expect them to run on."""
        while self.running:
            self.now = min(map(self.end_of, self.running))
            if self.now > until:
                break
            for number in [each for each in self.running if self.end_of(each) == self.now]:
                self.end(number)
            self.tick()
        self.now = until

    def end_of(self, number):
        return self.starts[number][0] + self.jobs[number].walltime_ns

    def _start(self, command):
        number = command.job.number
        assert number not in self.running
        for other, nodes in self.running.items():
            if common(nodes, command.nodes):
                assert not self.jobs[other].exclusive, (number, other)
                assert not self.jobs[number].exclusive, (number, other)
        self.running[number] = command.nodes
        self.starts[number] = (self.now, command.nodes)

    def started(self):
        return {number: at for number, (at, _) in self.starts.items()}


def test_exclusive_job_waits_for_nodes_without_jobs():
    domain = Domain()
    domain.submit(1, 3)
    domain.submit(2, 2, alone=True)
    domain.tick()
    domain.submit(3, 1, walltime=50)
    domain.tick()
    domain.advance(100)
    assert domain.started() == {1: 0, 2: 10, 3: 0}
    assert not common(domain.starts[2][1], domain.starts[3][1])


def test_no_later_job_starts_on_reserved_nodes():
    domain = Domain()
    domain.submit(1, 4)
    domain.submit(2, 4, alone=True)
    domain.tick()
    domain.submit(3, 1)
    domain.tick()
    assert domain.started() == {1: 0}
    domain.advance(100)
    assert domain.started() == {1: 0, 2: 10, 3: 20}


@pytest.mark.parametrize("policy", ["easy", "conservative"])
@pytest.mark.parametrize(("walltime", "start"), [(50, 20), (20, 0)])
def test_job_larger_than_the_other_nodes_has_a_reservation(policy, walltime, start):
    """A later job may not delay it beyond the end of the exclusive one."""
    domain = Domain(policy=policy)
    domain.submit(1, 2)
    domain.submit(2, 2, walltime=100)
    domain.tick()
    domain.submit(3, 2, alone=True)
    domain.submit(4, 4, walltime=5)
    domain.tick()
    domain.submit(5, 2, walltime=walltime)
    domain.tick()
    domain.advance(200)
    assert domain.started() == {1: 0, 2: 0, 3: 10, 4: 20, 5: start}


def test_one_row_never_shares_so_nothing_is_reserved():
    domain = Domain(rows=1)
    domain.submit(1, 2)
    domain.submit(2, 3, alone=True)
    domain.submit(3, 2)
    domain.tick()
    assert domain.started() == {1: 0, 3: 0}
    assert domain.queue.free_for(exclusive=True) == 0


def test_cancelled_exclusive_job_gives_its_reservation_back():
    domain = Domain()
    domain.submit(1, 4)
    domain.submit(2, 4, alone=True)
    domain.tick()
    domain.submit(3, 4)
    domain.tick()
    assert domain.started() == {1: 0}
    domain.handle(JobCancelled(0, 2))
    domain.tick()
    assert domain.started() == {1: 0, 3: 0}
    with pytest.raises(CoschedError, match="job 2: neither waits nor runs"):
        domain.handle(JobCancelled(0, 2))


def test_running_exclusive_job_is_ordered_to_end_once():
    domain = Domain()
    domain.submit(1, 2, alone=True)
    domain.tick()
    assert domain.queue.handle(JobCancelled(1, 1)) == (EndJob(1, Why.CANCELLED),)
    assert domain.queue.handle(NodesLost(2, ((0, 0),))) == ()
    domain.now = 10**9
    domain.tick()
    domain.end(1)
    assert 1 not in domain.queue


def test_walltime_of_an_exclusive_job_is_enforced_once():
    domain = Domain()
    domain.submit(1, 2, alone=True)
    domain.tick()
    domain.now = 10**9
    domain.tick()
    assert domain.ordered == {1: 1}


def test_exclusive_job_that_failed_to_start_waits_again():
    domain = Domain()
    domain.submit(1, 2, alone=True)
    domain.tick()
    del domain.running[1]
    domain.handle(JobFailedToStart(0, 1, requeue=True))
    assert [job.number for job in domain.queue.waiting] == [1]
    domain.tick()
    assert 1 in domain.running


def test_recovered_exclusive_job_has_its_nodes_alone():
    domain = Domain()
    job = Job(1, 2, 10, 0, exclusive=True)
    domain.queue.handle(JobRecovered(5, job, ((0, 1),), 3))
    for number in (2, 3):
        domain.submit(number, 2)
    domain.submit(4, 1)
    domain.tick()
    assert {number: at for number, (_, at) in domain.starts.items()} == {
        2: ((2, 3),),
        3: ((2, 3),),
    }


def test_lost_node_moves_the_reservation():
    domain = Domain()
    domain.submit(1, 2, walltime=10)
    domain.submit(2, 2, walltime=10)
    domain.submit(3, 2, alone=True)
    domain.tick()  # all nodes have a job in one of the rows, or are reserved
    domain.handle(NodesLost(0, ((0, 0),)))
    domain.tick()
    domain.advance(50)
    assert 3 in domain.starts
    assert not common(domain.starts[3][1], ((0, 0),))
    domain.handle(NodesJoined(50, ((0, 0),)))
    assert domain.queue.free_for(exclusive=True) == 4


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("alone", [True, False])
def test_stream_of_one_kind_does_not_starve_the_other(policy, alone):
    domain = Domain(policy=policy)
    for number in range(100):
        domain.submit(number, 3 if number == 10 else 1, alone=alone == (number == 10))
        domain.tick()
        domain.advance(domain.now + 3)
    assert domain.starts[10][0] <= 30 + 10 * 5


@pytest.mark.parametrize(
    ("rules", "starts"),
    [
        (PassRules(), {1: 10, 3: 20}),
        (PassRules(left_out={1}), {3: 10}),
        (PassRules(last={1}), {1: 20, 3: 10}),
        (PassRules(first=(2,)), {2: 10, 3: 20}),
    ],
)
def test_exclusive_job_waits_for_no_job_that_a_pass_skips(rules, starts):
    domain = Domain(policy="fcfs")
    for number in (-1, 0):  # they fill both places of each node
        domain.submit(number, 4)
    domain.tick()
    for number in (3, 2) if rules.first else (1, 3):
        domain.submit(number, 4, alone=number == 3)
    domain.handle(RulesChanged(0, rules))
    domain.advance(100)
    started = domain.started()
    assert {number: started[number] for number in started if number > 0} == starts


_jobs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 40), st.booleans(), st.integers(0, 15)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(_jobs, st.sampled_from(sorted(POLICIES)), st.integers(1, 3))
def test_forecast_is_what_happens_and_every_job_runs(jobs, policy, rows):
    domain = Domain(rows, policy)
    for number, (size, walltime, alone, gap) in enumerate(jobs):
        domain.advance(domain.now + gap)
        domain.submit(number, size, walltime, alone=alone and rows > 1)
        domain.tick()
    expected = forecast(domain.queue, domain.now)
    assert expected.keys() == {job.number for job in domain.queue.waiting}
    domain.advance(10**9)
    assert len(domain.starts) == len(jobs)
    assert {number: domain.starts[number][0] for number in expected} == expected


@settings(max_examples=80, deadline=None)
@given(st.data(), st.sampled_from(sorted(POLICIES)), st.integers(2, 3))
def test_exclusive_jobs_never_share_whatever_happens(data, policy, rows):
    domain, out, number = Domain(rows, policy), set(), 0
    kinds = ["submit", "submit", "alone", "end", "cancel", "fail", "lose", "drain", "join"]
    for _ in range(data.draw(st.integers(1, 30))):
        domain.now += data.draw(st.integers(0, 20))
        what = data.draw(st.sampled_from(kinds))
        if what in ("submit", "alone"):
            number += 1
            size, walltime = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 99))
            domain.submit(number, size, walltime, alone=what == "alone")
        elif what in ("end", "fail") and domain.running:
            ended = data.draw(st.sampled_from(sorted(domain.running)))
            if what == "end":
                domain.end(ended)
            else:
                del domain.running[ended]
                domain.handle(JobFailedToStart(domain.now, ended, requeue=True))
                if ended in domain.ordered:
                    assert ended not in domain.queue
        elif what == "cancel":
            known = [job.number for job in domain.queue.waiting] + list(domain.running)
            if known:
                domain.handle(JobCancelled(domain.now, data.draw(st.sampled_from(known))))
        elif what in ("lose", "drain", "join"):
            node = data.draw(st.integers(0, 3))
            kind = {"lose": NodesLost, "drain": NodesDrained, "join": NodesJoined}[what]
            domain.handle(kind(domain.now, ((node, node),)))
            (out.discard if what == "join" else out.add)(node)
        before = set(domain.starts)
        domain.tick()
        for started in domain.starts.keys() - before:
            assert not any(common(domain.starts[started][1], ((n, n),)) for n in out)
        for node in range(4):
            here = [n for n, ns in domain.running.items() if common(ns, ((node, node),))]
            assert len(here) <= rows
    for node in out:
        domain.handle(NodesJoined(domain.now, ((node, node),)))
    domain.tick()
    for _ in range(200):  # overdue jobs end now
        for running in sorted(domain.running):
            domain.end(running)
        domain.tick()
    assert not domain.queue.waiting
