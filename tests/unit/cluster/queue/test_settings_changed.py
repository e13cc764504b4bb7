"""Changes the policy, the grace and the sharing of nodes of a queue that runs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.nodes import common
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import EndJob, Why
from cosched.core.cluster.queue.queue_events import (
    JobFailedToStart,
    NodesDrained,
    NodesJoined,
    NodesLost,
    SettingsChanged,
    SharingChanged,
    Ticked,
)
from tests.unit.cluster.queue.test_exclusive_jobs import Domain


def change(domain, policy, grace=10**6):
    domain.handle(SettingsChanged(domain.now, POLICIES[policy], grace))
    domain.tick()


def test_new_policy_decides_about_jobs_that_wait_already():
    domain = Domain(rows=1, policy="fcfs")
    for number, size in enumerate((3, 4, 1)):
        domain.submit(number, size)
    domain.tick()
    assert domain.started() == {0: 0}
    change(domain, "easy")
    assert domain.started() == {0: 0, 2: 0}


def test_new_grace_is_for_jobs_that_start_later():
    domain = Domain(rows=1)
    domain.submit(1, 2, walltime=10)
    domain.tick()
    change(domain, "easy", grace=5)
    domain.submit(2, 2, walltime=10)
    domain.tick()
    domain.now = 15
    assert domain.queue.handle(Ticked(15))[0] == EndJob(2, Why.WALLTIME)


_steps = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 4), st.integers(1, 40), st.booleans(), st.integers(0, 15)),
        st.sampled_from(sorted(POLICIES)),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=80, deadline=None)
@given(_steps, st.sampled_from(sorted(POLICIES)), st.integers(1, 3))
def test_changes_touch_no_running_job_and_lose_none(steps, policy, rows):
    domain, number = Domain(rows, policy), 0
    for step in steps:
        if isinstance(step, str):
            running = dict(domain.running)
            waiting = domain.queue.waiting
            domain.handle(SettingsChanged(domain.now, POLICIES[step], 10**6))
            assert (domain.running, domain.queue.waiting) == (running, waiting)
            domain.tick()
            policy = step
            assert running.items() <= domain.running.items()
        else:
            size, walltime, alone, gap = step
            domain.advance(domain.now + gap)
            number += 1
            domain.submit(number, size, walltime, alone=alone and rows > 1)
            domain.tick()
    expected = forecast(domain.queue, domain.now)
    domain.advance(10**9)
    assert len(domain.starts) == number
    assert not domain.ordered
    assert {job: domain.starts[job][0] for job in expected} == expected


# -- how many jobs share a node ----------------------------------------------------------


class Sharing(Domain):
    """A domain whose number of jobs on a node changes. It checks each start by the number
    of that moment."""

    def __init__(self, rows, policy="easy"):
        super().__init__(rows, policy)
        self.most = rows

    def share(self, rows, walltimes=()):
        self.most = rows
        self.handle(SharingChanged(self.now, rows, dict(walltimes)))

    def _start(self, command):
        super()._start(command)
        for first, last in command.nodes:
            for node in range(first, last + 1):
                there = [n for n in self.running.values() if common(n, ((node, node),))]
                assert len(there) <= self.most, (command, there)


def test_second_job_starts_when_two_may_share_a_node():
    domain = Sharing(1)
    for number in (1, 2, 3):
        domain.submit(number, 4)
    domain.tick()
    domain.share(2)
    assert domain.started() == {1: 0}
    domain.tick()
    assert domain.started() == {1: 0, 2: 0}


def test_fewer_jobs_share_a_node_once_those_there_have_ended():
    domain = Sharing(3)
    for number, walltime in ((1, 30), (2, 10), (3, 20), (4, 5)):
        domain.submit(number, 4, walltime)
    domain.tick()
    domain.share(1)
    domain.tick()
    assert domain.started() == {1: 0, 2: 0, 3: 0}
    domain.advance(100)
    assert domain.started()[4] == 30


def test_jobs_that_fit_into_fewer_rows_leave_the_other_nodes_free():
    domain = Sharing(2)
    domain.submit(1, 3, 30)
    domain.submit(2, 4, 10)
    domain.tick()
    domain.submit(3, 1, 30)
    domain.tick()
    assert domain.starts[3] == (0, ((3, 3),))
    domain.now = 10
    domain.end(2)
    domain.share(1)
    domain.submit(4, 1, 5)
    domain.tick()
    assert 4 not in domain.starts  # jobs 1 and 3 have all nodes, in one row now
    domain.end(3)
    domain.tick()
    assert domain.starts[4] == (10, ((3, 3),))


def test_exclusive_job_stays_alone_when_more_jobs_may_share_its_nodes():
    domain = Sharing(1)
    domain.submit(1, 4, alone=True)
    domain.submit(2, 4)
    domain.tick()
    domain.share(2)
    domain.tick()
    assert domain.started() == {1: 0}
    domain.advance(100)
    assert domain.started() == {1: 0, 2: 10}


def test_limits_grow_for_running_jobs_and_follow_the_change_for_others():
    domain = Sharing(1)
    domain.submit(1, 4, walltime=10)
    domain.submit(2, 4, walltime=10)
    domain.tick()
    domain.share(2, {1: 20, 2: 20})
    domain.tick()
    assert domain.queue.jobs[1].limit_ns == 20 + 10**6
    assert domain.queue.jobs[2].limit_ns == 20 + 10**6
    domain.share(1, {1: 10, 2: 10})
    assert {n: end for end, n, _ in domain.queue.place.ends} == {1: 20, 2: 20}


def test_job_that_was_ordered_to_end_is_ordered_once():
    domain = Sharing(2)
    domain.submit(1, 4)
    domain.submit(2, 2, alone=True)
    domain.tick()
    domain.handle(NodesLost(0, ((0, 0),)))
    domain.share(1)
    domain.tick()
    domain.share(3)
    domain.tick()
    assert domain.ordered == {1: 1}


def test_job_in_a_closed_row_that_fails_to_start_waits_in_an_open_one():
    domain = Sharing(2)
    domain.submit(1, 4)
    domain.submit(2, 4)
    domain.tick()
    domain.share(1)
    del domain.running[2], domain.starts[2]
    domain.handle(JobFailedToStart(0, 2, requeue=True))
    domain.tick()
    assert 2 not in domain.running
    domain.end(1)
    domain.tick()
    assert 2 in domain.running


_node = st.integers(0, 3)
_shared_steps = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 4), st.integers(1, 40), st.booleans(), st.integers(0, 15)),
        st.integers(1, 4).map(lambda rows: ("share", rows)),
        st.tuples(st.sampled_from([NodesDrained, NodesJoined]), _node),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=120, deadline=None)
@given(_shared_steps, st.sampled_from(sorted(POLICIES)), st.integers(1, 3))
def test_sharing_changes_touch_no_running_job_and_lose_none(steps, policy, rows):
    domain, number = Sharing(rows, policy), 0
    for step in steps:
        if step[0] == "share":
            running = dict(domain.running)
            waiting = {job.number for job in domain.queue.waiting}
            domain.share(step[1])
            assert domain.running == running
            assert {job.number for job in domain.queue.waiting} == waiting
        elif step[0] in (NodesDrained, NodesJoined):
            domain.handle(step[0](domain.now, ((step[1], step[1]),)))
        else:
            size, walltime, alone, gap = step
            domain.advance(domain.now + gap)
            number += 1
            domain.submit(number, size, walltime, alone=alone)
        domain.tick()
    domain.handle(NodesJoined(domain.now, ((0, 3),)))
    domain.tick()
    domain.advance(10**9)
    assert len(domain.starts) == number
    assert not domain.ordered
    assert not domain.queue.waiting
    assert len(domain.queue.place.all) <= 4
