"""Tests of the queue whose nodes take several jobs, and of its forecast."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.forecast import forecast
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import common, count, numbers
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobRecovered,
    JobSubmitted,
    NodesAdded,
    NodesDrained,
    NodesJoined,
    NodesLost,
    NodesRemoved,
    Ticked,
)
from cosched.core.cluster.queue.waiting import arrival
from cosched.core.errors import CoschedError

NODES = ((0, 3),)
HOUR = 3600


def make(rows, policy="easy"):
    return QueueMachine(Rows(NODES, rows), POLICIES[policy], grace_ns=10)


def submit(queue, number, size, walltime=HOUR, now=0):
    queue.handle(JobSubmitted(now, Job(number, size, walltime, now)))


def starts(queue, now=0):
    commands = queue.handle(Ticked(now))
    return {c.job.number: c.nodes for c in commands if isinstance(c, StartJob)}


def test_two_jobs_share_all_nodes_when_nodes_take_two():
    queue = make(rows=2)
    submit(queue, 1, 4)
    submit(queue, 2, 4)
    submit(queue, 3, 1)
    assert starts(queue) == {1: NODES, 2: NODES}
    assert [job.number for job in queue.waiting] == [3]


def test_a_waiting_job_moves_to_a_row_that_can_start_it():
    queue = make(rows=2)
    submit(queue, 1, 4, walltime=10)
    assert set(starts(queue)) == {1}
    submit(queue, 2, 4, walltime=HOUR)
    assert set(starts(queue)) == {2}
    submit(queue, 3, 4)  # joins the first row, whose job should end sooner
    assert starts(queue) == {}
    queue.handle(JobEnded(5, 2))
    assert starts(queue, 5) == {3: NODES}


def test_job_behind_a_moved_one_starts_once():
    """It starts in its own row as soon as the job before it moves to another row."""
    queue = make(3, "fcfs")
    for number, size, walltime in ((1, 1, 10), (2, 4, HOUR), (3, 4, HOUR)):
        submit(queue, number, size, walltime)
        starts(queue)
    submit(queue, 4, 4)
    submit(queue, 5, 1)
    assert starts(queue) == {}
    queue.handle(JobEnded(5, 2))
    queue.handle(JobEnded(5, 3))
    started = [c.job.number for c in queue.handle(Ticked(5)) if isinstance(c, StartJob)]
    assert sorted(started) == [4, 5]
    assert queue.waiting == []


def test_a_recovered_job_takes_a_row_in_which_its_nodes_are_free():
    queue = make(rows=2)
    for number in (1, 2):
        queue.handle(JobRecovered(5, Job(number, 2, HOUR, 0), ((1, 2),), 3))
    queue.handle(JobRecovered(5, Job(3, 2, HOUR, 0), ((0, 0), (3, 3)), 3))
    assert [row.free for row in queue.place.all] == [0, 2]


def test_a_cancelled_job_is_unknown_afterwards():
    queue = make(rows=2)
    submit(queue, 1, 4)
    queue.handle(JobCancelled(0, 1))
    with pytest.raises(CoschedError, match="job 1: neither waits nor runs"):
        queue.handle(JobCancelled(0, 1))


def test_the_forecast_gives_the_starts_under_the_policy_and_changes_nothing():
    queue = make(rows=1)
    submit(queue, 1, 3, walltime=100)
    starts(queue)
    submit(queue, 2, 4, walltime=50)
    submit(queue, 3, 1, walltime=100)  # fits beside job 1 and does not delay job 2
    submit(queue, 4, 1, walltime=200)
    assert forecast(queue, 0) == {2: 100, 3: 0, 4: 150}
    assert [job.number for job in queue.waiting] == [2, 3, 4]
    assert set(starts(queue)) == {3}


def test_a_job_that_cannot_start_has_no_forecast():
    queue = make(rows=1)
    queue.handle(NodesLost(0, ((0, 0),)))
    submit(queue, 1, 4)
    submit(queue, 2, 2)
    assert 1 not in forecast(queue, 0)


def test_a_late_pass_starts_only_jobs_that_have_nodes():
    queue = make(1, "conservative")
    submit(queue, 1, 1, walltime=1)
    starts(queue)
    submit(queue, 2, 4, walltime=1)
    submit(queue, 3, 4, walltime=1)
    queue.handle(JobEnded(2, 1))
    assert starts(queue, 2) == {2: NODES}


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(sorted(POLICIES)), st.integers(1, 3))
def test_rows_never_give_a_node_to_more_jobs_than_they_are(data, policy, rows):
    queue = make(rows, policy)
    running, out, now, number, size = {}, set(), 0, 0, 4
    gone = set()
    for _ in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.integers(0, 50))
        what = data.draw(
            st.sampled_from(
                ["submit", "submit", "end", "cancel", "lose", "join", "add", "remove"]
            )
        )
        if what == "submit":
            number += 1
            submit(
                queue,
                number,
                data.draw(st.integers(1, size - len(gone))),
                data.draw(st.integers(1, 99)),
                now,
            )
        elif what == "end" and running:
            ended = data.draw(st.sampled_from(sorted(running)))
            queue.handle(JobEnded(now, ended))
            del running[ended]
        elif what == "cancel" and queue.waiting:
            queue.handle(
                JobCancelled(now, data.draw(st.sampled_from(queue.waiting)).number)
            )
        elif what == "add":
            queue.handle(NodesAdded(now, ((size, size),)))
            out.add(size)
            size += 1
        elif what in ("lose", "join"):
            node = data.draw(st.sampled_from(sorted({*range(size)} - gone)))
            kind = NodesLost if what == "lose" else NodesJoined
            queue.handle(kind(now, ((node, node),)))
            (out.add if what == "lose" else out.discard)(node)
        elif what == "remove":
            held = {node for each in running.values() for node in numbers(each)}
            free = sorted({*range(size)} - gone - held)
            if free and size - len(gone) > 1:
                node = data.draw(st.sampled_from(free))
                queue.handle(NodesRemoved(now, ((node, node),)))
                gone.add(node)
                out.add(node)
        assert queue.place.total == size - len(gone)
        assert queue.place.in_service == size - len(out)
        for started, nodes in starts(queue, now).items():
            assert started not in running
            assert not any(common(nodes, ((node, node),)) for node in out)
            running[started] = nodes
        for node in range(size):
            here = [
                n for n, nodes in running.items() if count(common(nodes, ((node, node),)))
            ]
            assert len(here) <= rows
        assert queue.waiting == sorted(queue.waiting, key=arrival)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("rows", [1, 2])
def test_new_nodes_take_jobs_once_they_have_joined(policy, rows):
    queue = make(rows, policy)
    with pytest.raises(CoschedError, match="wants 5 nodes; the machine has 4"):
        submit(queue, 1, 5)
    for number in range(rows):
        submit(queue, number, 4)
    assert len(starts(queue)) == rows
    queue.handle(NodesAdded(1, ((4, 5),)))
    submit(queue, 8, 2, now=1)
    assert starts(queue, 1) == {}
    queue.handle(NodesJoined(2, ((4, 5),)))
    assert starts(queue, 2) == {8: ((4, 5),)}
    submit(queue, 9, 6, now=2)
    for number in (*range(rows), 8):
        queue.handle(JobEnded(3, number))
    assert starts(queue, 3) == {9: ((0, 5),)}


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("rows", [1, 2])
def test_removed_nodes_are_no_part_of_the_domain(policy, rows):
    queue = make(rows, policy)
    submit(queue, 1, 4)
    queue.handle(NodesRemoved(0, ((3, 3),)))
    assert (queue.place.total, queue.place.capacity) == (3, 3)
    with pytest.raises(CoschedError, match="4 nodes"):
        submit(queue, 2, 4)
    submit(queue, 3, 3)
    assert starts(queue) == {3: ((0, 2),)}, "the job that is too large stops no other"
    queue.handle(NodesAdded(1, ((4, 4),)))
    queue.handle(NodesJoined(1, ((4, 4),)))
    queue.handle(JobEnded(2, 3))
    assert starts(queue, 2) == {1: ((0, 2), (4, 4))}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_job_that_is_too_large_for_the_nodes_left_stops_no_other(policy):
    queue = make(1, policy)
    submit(queue, 1, 4)
    queue.handle(NodesDrained(0, ((3, 3),)))
    submit(queue, 2, 3)
    assert starts(queue) == {2: ((0, 2),)}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_job_waits_for_nodes_that_the_domain_may_get(policy):
    rows = Rows(((0, 0),), 1)
    rows.expect(3)
    queue = QueueMachine(rows, POLICIES[policy])
    with pytest.raises(CoschedError, match="wants 4 nodes; the machine has 3"):
        submit(queue, 1, 4)
    submit(queue, 2, 3)
    submit(queue, 3, 1)
    first = starts(queue)
    assert first in ({}, {3: ((0, 0),)})  # fcfs keeps the order
    if first:
        queue.handle(JobEnded(1, 3))
    queue.handle(NodesAdded(1, ((1, 2),)))
    assert starts(queue, 1) == {}
    queue.handle(NodesJoined(2, ((1, 2),)))
    assert starts(queue, 2)[2] == ((0, 2),)
