"""Tests of the queue that gives jobs CPUs of nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import numbers
from cosched.core.cluster.queue.places.cpu_board import CpuJob
from cosched.core.cluster.queue.places.cpus import Cpus
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob
from cosched.core.cluster.queue.queue_events import (
    CpusCounted,
    JobEnded,
    JobRecovered,
    JobSubmitted,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    SharingChanged,
    Ticked,
)
from cosched.core.errors import CoschedError

ONE = ((0, 0),)
HOUR = 3600
WHOLE = 1000  #: more CPUs than a node has


def make(cpus=2, jobs=1, nodes=ONE, policy="easy"):
    return QueueMachine(Cpus(nodes, cpus, jobs), POLICIES[policy], grace_ns=10)


def job(number, cpus=1, nodes=1, walltime=HOUR, now=0, each=2, **more):
    size = nodes * min(cpus, each)
    return CpuJob(number, size, walltime, now, nodes=nodes, cpus=cpus, **more)


def submit(queue, *args, now=0, **more):
    queue.handle(JobSubmitted(now, job(*args, now=now, **more)))


def starts(queue, now=0):
    commands = queue.handle(Ticked(now))
    return {c.job.number: numbers(c.nodes) for c in commands if isinstance(c, StartJob)}


def end(queue, number, now):
    queue.handle(JobEnded(now, number))


def test_jobs_of_one_rank_fill_the_cpus_side_by_side():
    queue = make(cpus=2)
    for number in (1, 2, 3):
        submit(queue, number)
    assert starts(queue) == {1: [0], 2: [0]}
    end(queue, 2, 5)
    assert starts(queue, 5) == {3: [0]}


def test_a_job_that_does_not_fit_waits_for_its_cpus():
    queue = make(cpus=2)
    submit(queue, 1, 1, walltime=100)
    submit(queue, 2, 2, walltime=100)
    submit(queue, 3, 1, walltime=200)
    assert starts(queue) == {1: [0]}, "the third would delay the second"
    end(queue, 1, 50)
    assert starts(queue, 50) == {2: [0]}


def test_a_job_that_ends_in_time_fills_the_gap():
    queue = make(cpus=2)
    submit(queue, 1, 1, walltime=100)
    submit(queue, 2, 2, walltime=100)
    submit(queue, 3, 1, walltime=80)
    assert starts(queue) == {1: [0], 3: [0]}


def test_a_job_with_more_ranks_than_cpus_has_the_whole_node():
    queue = make(cpus=2)
    submit(queue, 1, WHOLE)
    submit(queue, 2, 1)
    assert starts(queue) == {1: [0]}


def test_jobs_share_cpus_only_with_jobs_that_share():
    queue = make(cpus=2, jobs=2)
    submit(queue, 1, 2, shares=True)
    submit(queue, 2, 2, shares=True)
    submit(queue, 3, 1, now=1)
    submit(queue, 4, 2, now=1, shares=True)
    submit(queue, 5, 1, now=1, shares=True)
    assert starts(queue, 1) == {1: [0], 2: [0]}
    end(queue, 1, 5)
    assert starts(queue, 5) == {5: [0]}, "job 2 has both CPUs, and job 4 would delay job 3"
    end(queue, 2, 6)
    assert starts(queue, 6) == {3: [0]}


def test_a_job_alone_leaves_room_for_the_widest_job_that_shares():
    queue = make(cpus=4, jobs=2)
    submit(queue, 1, 2, each=4, shares=True)
    submit(queue, 2, 3, each=4)
    submit(queue, 3, 2, walltime=2 * HOUR, each=4, now=1)
    assert starts(queue, 1) == {1: [0]}
    end(queue, 1, 5)
    assert starts(queue, 5) == {2: [0]}


def test_small_jobs_leave_other_nodes_whole():
    queue = make(cpus=2, nodes=((0, 2),))
    submit(queue, 1, 1)
    submit(queue, 2, 1)
    submit(queue, 3, 2, nodes=2)
    assert starts(queue) == {1: [0], 2: [0], 3: [1, 2]}


def test_a_job_that_shares_takes_idle_cpus_first():
    queue = make(cpus=2, jobs=2, nodes=((0, 1),))
    submit(queue, 1, 2, shares=True)
    submit(queue, 2, 2, shares=True)
    assert starts(queue) == {1: [0], 2: [1]}


def test_no_job_starts_before_the_cpus_are_known():
    queue = make(cpus=0)
    submit(queue, 1)
    assert starts(queue) == {}
    queue.handle(CpusCounted(1, 2))
    assert starts(queue, 1) == {1: [0]}


def test_restored_jobs_keep_their_cpus():
    queue = make(cpus=0)
    queue.handle(JobRecovered(0, job(1, 1), ONE, 0))
    queue.handle(CpusCounted(0, 2))
    submit(queue, 2, 1)
    submit(queue, 3, 1)
    assert starts(queue) == {2: [0]}


def test_nodes_join_and_leave_service():
    queue = make(cpus=2)
    queue.handle(NodesDrained(0, ONE))
    submit(queue, 1, 2)
    assert starts(queue) == {}
    queue.handle(NodesAdded(0, ((4, 4),)))
    queue.handle(NodesJoined(0, ((4, 4),)))
    assert starts(queue) == {1: [4]}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "largest"])
def test_job_of_more_nodes_than_are_in_service_stops_no_other(policy):
    queue = make(cpus=4, nodes=((0, 2),), policy=policy)
    queue.handle(NodesDrained(0, ((2, 2),)))
    submit(queue, 1, nodes=3, each=4)
    submit(queue, 2, each=4)
    assert starts(queue) == {2: [0]}
    queue.handle(NodesJoined(1, ((2, 2),)))
    assert starts(queue, 1) == {1: [0, 1, 2]}


def test_fewer_jobs_may_share_from_now_on():
    queue = make(cpus=2, jobs=2)
    submit(queue, 1, 2, shares=True)
    assert starts(queue) == {1: [0]}
    queue.handle(SharingChanged(1, 1, {}))
    submit(queue, 2, 2, now=1, shares=True)
    assert starts(queue, 1) == {}
    end(queue, 1, 2)
    assert starts(queue, 2) == {2: [0]}


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Job(1, 1, HOUR, 0), "CPUs of nodes are for jobs"),
        (job(1, 1, nodes=2), "wants 2 nodes; the machine has 1"),
        (job(1, 0), "wants 0 CPUs"),
    ],
)
def test_jobs_that_do_not_suit_are_refused(wrong, text):
    with pytest.raises(CoschedError, match=text):
        make().handle(JobSubmitted(0, wrong))


def test_a_job_without_a_limit_is_never_late():
    queue = make(cpus=2)
    submit(queue, 1, walltime=10, limited=False)
    submit(queue, 2, walltime=10)
    starts(queue)
    late = queue.handle(Ticked(10**6))
    assert [each.number for each in late if isinstance(each, EndJob)] == [2]


def test_a_late_job_is_expected_to_take_as_long_again():
    second = 10**9
    queue = make(cpus=1)
    submit(queue, 1, walltime=10 * second, each=1)
    submit(queue, 2, 1, each=1)
    starts(queue)
    assert starts(queue, 12 * second) == {}
    assert forecast(queue, 12 * second) == {2: 24 * second}


def test_what_follows_a_job_of_unknown_length_has_no_forecast():
    queue = make(cpus=2)
    submit(queue, 1, walltime=100)
    submit(queue, 2, walltime=200, known=False)
    submit(queue, 3, 1)
    submit(queue, 4, 2)
    assert starts(queue) == {1: [0], 2: [0]}
    assert forecast(queue, 0) == {3: 100}


def test_an_equal_later_job_does_not_pass_the_first_in_rows():
    """The first of equal jobs starts, whichever row becomes free."""
    queue = QueueMachine(Rows(ONE, 2), POLICIES["easy"], grace_ns=10)
    for number in (1, 2, 3, 4, 5):
        queue.handle(JobSubmitted(number, Job(number, 1, 2 * HOUR, number)))
        queue.handle(Ticked(number))
    order = []
    now = 10
    for gone in (2, 1, 3, 4):
        now += 1
        queue.handle(JobEnded(now, gone))
        order += list(starts(queue, now))
    assert order == [3, 4, 5]


jobs_of_users = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 2), st.booleans(), st.integers(1, 50)),
    max_size=12,
)


@given(jobs_of_users, st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_no_cpu_serves_more_jobs_than_it_may(wanted, most):
    """Jobs that have their CPUs alone never overlap, and all jobs start in the end."""
    cpus = 4
    queue = make(cpus=cpus, jobs=most, nodes=((0, 1),))
    for number, (width, nodes, shares, walltime) in enumerate(wanted, 1):
        submit(queue, number, width, nodes, walltime, each=cpus, shares=shares)
    done, now = set(), 0
    while len(done) < len(wanted):
        assert starts(queue, now) or queue.place.ends
        board = queue.place.board
        for node in (0, 1):
            here = board.jobs_on(node)
            alone = sum(board.wanted(each) for each in here if not each.shares)
            shared = [board.wanted(each) for each in here if each.shares]
            assert alone <= cpus
            assert sum(shared) <= most * (cpus - alone)
            assert max(shared, default=0) <= cpus - alone
        end_ns, number, _ = queue.place.ends[0]
        now = max(now, end_ns - 1)
        end(queue, number, now)
        done.add(number)


class Apart(Cpus):
    """CPUs of nodes where no two jobs have the same shape."""

    def shape(self, job):
        return job.number


def story(place, wanted, policy):
    """Returns what starts after each event, and the counts of the plan."""
    queue = QueueMachine(place(((0, 2),), 4, 2), POLICIES[policy], grace_ns=10)
    found = []
    for number, (width, nodes, shares, walltime) in enumerate(wanted, 1):
        known = {"shares": shares, "known": walltime > 1}
        submit(queue, number, width, nodes, walltime, now=number, each=4, **known)
        if number % 4 == 0:  # others come together
            found.append(starts(queue, number))
    now = len(wanted)
    found.append(starts(queue, now))
    while queue.place.ends:
        end_ns, number, _ = queue.place.ends[0]
        now = max(now, end_ns - 1)
        end(queue, number, now)
        found.append(starts(queue, now))
    return found, queue.planner.counts


@given(
    st.lists(
        st.tuples(
            st.integers(1, 4), st.integers(1, 3), st.booleans(), st.sampled_from([1, 9])
        ),
        max_size=25,
    ),
    st.sampled_from(["easy", "wfp", "largest"]),
)
@settings(deadline=None)
def test_jobs_of_one_shape_start_as_if_each_had_its_own(wanted, policy):
    assert story(Cpus, wanted, policy) == story(Apart, wanted, policy)


@pytest.mark.parametrize("first", [7, 1])
def test_a_pass_searches_once_for_jobs_of_one_shape(monkeypatch, first):
    """They fit nowhere, or would delay the first one that waits."""
    searches = []
    fit = Cpus._fit

    def counted(place, *args):
        searches.append(args)
        return fit(place, *args)

    monkeypatch.setattr(Cpus, "_fit", counted)
    queue = make(cpus=8, nodes=((0, 1),))
    submit(queue, 1, first, each=8)
    submit(queue, 2, 7, each=8)
    assert starts(queue).keys() == {1, 2}
    submit(queue, 3, 8, 2, each=8)
    searches.clear()
    for number in range(4, 104):
        submit(queue, number, 2 if first > 1 else 1, 1, 2 * HOUR, each=8)
    assert starts(queue) == {}
    assert len(searches) < 10
