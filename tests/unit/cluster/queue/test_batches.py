"""Checks jobs that are kept back: tasks of arrays, and jobs that wait for others."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.batches import Batches, Terms
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import DropJobs, LetIn, StartJob
from cosched.core.cluster.queue.queue_events import (
    JobCancelled,
    JobEnded,
    JobFailedToStart,
    JobRecovered,
    JobSubmitted,
    OutcomeKnown,
    Ticked,
)
from cosched.core.cluster.queue.states import State
from cosched.core.errors import CoschedError

NODES = 4


def machine(policy="easy", nodes=NODES):
    return QueueMachine(Ledger(((0, nodes - 1),)), POLICIES[policy])


def submit(queue, number, size=1, now=0, walltime=10, **terms):
    batch = {"batch": number, **terms}
    given_terms = Terms(**batch) if terms else None
    return queue.handle(JobSubmitted(now, Job(number, size, walltime, now), given_terms))


def started(commands):
    return [each.job.number for each in commands if isinstance(each, StartJob)]


def array(queue, first, tasks, at_once, now=0, size=1):
    for number in range(first, first + tasks):
        submit(queue, number, size, now, batch=first, at_once=at_once)


def test_an_array_has_at_most_so_many_tasks_in_the_queue():
    queue = machine(nodes=10)
    array(queue, 1, 5, at_once=2)
    commands = queue.handle(Ticked(0))
    assert commands[0] == LetIn((1, 2))
    assert started(commands) == [1, 2]
    assert [queue.jobs.state(n) for n in (3, 4, 5)] == [State.KEPT_BACK] * 3
    assert not queue.waiting
    queue.handle(JobEnded(5, 1))
    assert started(queue.handle(Ticked(5))) == [3]


def test_a_task_that_waits_again_keeps_its_room():
    queue = machine()
    array(queue, 1, 3, at_once=1)
    assert started(queue.handle(Ticked(0))) == [1]
    queue.handle(JobFailedToStart(1, 1, requeue=True))
    assert started(queue.handle(Ticked(1))) == [1]


def test_cancelled_tasks_make_room_and_kept_ones_never_start():
    queue = machine()
    array(queue, 1, 4, at_once=1)
    queue.handle(Ticked(0))
    queue.handle(JobCancelled(1, 2))
    queue.handle(JobCancelled(1, 3))
    queue.handle(JobEnded(2, 1))
    assert started(queue.handle(Ticked(2))) == [4]
    queue.handle(JobEnded(3, 4))
    queue.handle(Ticked(3))
    assert not queue.batches
    assert not queue.jobs


@pytest.mark.parametrize("ok", [True, False])
def test_a_job_waits_for_any_end(ok):
    queue = machine()
    submit(queue, 2, after=frozenset({1}))
    assert queue.batches.awaits(1)
    assert started(queue.handle(Ticked(0))) == []
    assert queue.handle(OutcomeKnown(4, 1, ok=ok)) == ()
    assert started(queue.handle(Ticked(4))) == [2]
    assert not queue.batches.awaits(1)


def test_a_job_that_waited_for_success_is_dropped_with_its_whole_array():
    queue = machine()
    for number in (3, 4):
        submit(queue, number, batch=3, after_ok=frozenset({1, 2}))
    assert queue.handle(OutcomeKnown(1, 1, ok=True)) == ()
    assert queue.handle(OutcomeKnown(2, 2, ok=False)) == (DropJobs((3, 4), 2),)
    assert not queue.jobs
    assert not queue.batches
    with pytest.raises(CoschedError, match=r"job 3: .*dropped, because"):
        queue.handle(JobCancelled(3, 3))


def test_a_job_that_is_let_in_goes_behind_all_that_wait():
    queue = machine(policy="fcfs", nodes=1)
    submit(queue, 1)
    array(queue, 2, 2, at_once=1)
    submit(queue, 9, now=1)
    queue.handle(Ticked(1))
    assert [job.number for job in queue.waiting] == [2, 9]
    queue.handle(JobEnded(2, 1))
    assert started(queue.handle(Ticked(2))) == [2]
    queue.handle(JobEnded(3, 2))
    assert started(queue.handle(Ticked(3))) == [9]
    assert [job.number for job in queue.waiting] == [3]
    assert queue.waiting[0].submit_ns == 3


def test_recovered_tasks_count_before_the_first_tick():
    queue = machine()
    terms = Terms(1, at_once=2, let_in=True)
    queue.handle(JobSubmitted(0, Job(2, 1, 10, 0), terms))
    for number in (3, 4):
        submit(queue, number, batch=1, at_once=2)
    queue.handle(JobRecovered(0, Job(1, 1, 10, 0), ((0, 0),), 0, terms=terms))
    assert started(queue.handle(Ticked(0))) == [2]
    assert queue.jobs.state(3) is State.KEPT_BACK
    queue.handle(JobEnded(1, 1))
    assert started(queue.handle(Ticked(1))) == [3]


def test_many_cancelled_tasks_leave_nothing_behind():
    batches = Batches()
    for number in range(1, 1001):
        batches.add(number, Terms(1, at_once=1))
    for number in range(1, 1000):
        batches.remove(number)
    assert batches.due() == [1000]
    batches.remove(1000)
    assert not batches


def test_the_jobs_for_which_a_job_waits_can_be_read():
    batches = Batches()
    batches.add(9, Terms(9, after=frozenset({3, 2}), after_ok=frozenset({5})))
    assert batches.needed_by(9) == (2, 1)
    assert batches.kept == [9]


_BATCH = st.tuples(
    st.integers(1, 5),  # tasks
    st.integers(0, 3),  # at once
    st.integers(1, NODES),  # nodes of each
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=2),  # jobs before it
    st.integers(0, 20),  # submitted
)


def _tasks_of(batches):
    """Returns a row for each task: its number, its nodes, the terms of its batch, and when
    it is submitted."""
    rows = []
    for tasks, at_once, size, before, at in sorted(batches, key=lambda one: one[4]):
        number = len(rows) + 1
        known = range(1, number)
        needs = {known[each % len(known)]: ok for each, ok in before if known}
        after = frozenset(job for job, ok in needs.items() if not ok)
        terms = Terms(number, at_once, after, frozenset(needs) - after)
        rows += [(number + task, size, terms, at) for task in range(tasks)]
    return rows


class _History:
    """A queue that gets all tasks, whose jobs have drawn fates and run times."""

    def __init__(self, policy, rows, fates, runs):
        self.queue, self.policy = machine(policy), policy
        self.todo, self.fates, self.runs = list(rows), fates, runs
        self.terms = {job: terms for job, _, terms, _ in rows}
        self.outcomes = {}  # by job; True: it ended well
        self.ends = {}  # of the running jobs
        self.tried = set()  # jobs that failed to start once
        self.promised = {}  # the first reservation of each job

    def fate(self, job):
        return self.fates[job % len(self.fates)]

    def settle(self, now, job, *, ok):
        """Reports the outcome of a job, and those of the jobs that are dropped for it."""
        known = [(job, ok)]
        while known:
            each, well = known.pop()
            self.outcomes[each] = well
            if not self.queue.batches.awaits(each):
                continue
            for command in self.queue.handle(OutcomeKnown(now, each, well)):
                assert isinstance(command, DropJobs)
                assert not well
                known += [(dropped, False) for dropped in command.numbers]

    def submit_due(self, now):
        while self.todo and self.todo[0][3] <= now:
            job, size, terms, _ = self.todo.pop(0)
            over = {n for n in terms.after | terms.after_ok if n in self.outcomes}
            if any(not self.outcomes[each] for each in over & terms.after_ok):
                self.settle(now, job, ok=False)
                continue
            if not self.queue.batches.has(terms.batch):
                left = (terms.after - over, terms.after_ok - over)
                terms = Terms(terms.batch, terms.at_once, *left)
            self.queue.handle(JobSubmitted(now, Job(job, size, 9, now), terms))

    def end_due(self, now):
        for job in [each for each, end in self.ends.items() if end <= now]:
            del self.ends[job]
            if self.fate(job) == "again" and job not in self.tried:
                self.tried.add(job)
                self.promised.clear()  # a job that waits again has its old place
                self.queue.handle(JobFailedToStart(now, job, requeue=True))
                continue
            self.queue.handle(JobEnded(now, job))
            self.settle(now, job, ok=self.fate(job) != "badly")

    def cancel_some(self, now):
        for job in list(self.queue.jobs):
            waits = self.queue.jobs.state(job) in (State.WAITING, State.KEPT_BACK)
            if waits and self.fate(job) == "cancel" and now % 3 == 2:
                self.queue.handle(JobCancelled(now, job))
                self.settle(now, job, ok=False)

    def start(self, now):
        for job in started(self.queue.handle(Ticked(now))):
            terms = self.terms[job]
            assert all(each in self.outcomes for each in terms.after)
            assert all(self.outcomes[each] for each in terms.after_ok)
            self.ends[job] = now + min(9, self.runs[job % len(self.runs)])

    def check(self):
        """An array keeps its bound, and no reservation is put off."""
        inside = Counter(
            self.terms[job].batch
            for job in self.queue.jobs
            if self.queue.jobs.state(job) is not State.KEPT_BACK
        )
        for batch, count in inside.items():
            assert count <= (self.terms[batch].at_once or count)
        reservation = getattr(self.queue.planner, "reservation", None)
        if self.policy == "easy" and reservation is not None:
            job, at = reservation
            assert at <= self.promised.setdefault(job.number, at)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "wfp"])
@given(
    batches=st.lists(_BATCH, min_size=1, max_size=6),
    fates=st.lists(st.sampled_from(["well", "badly", "again", "cancel"]), min_size=40),
    runs=st.lists(st.integers(1, 9), min_size=40, max_size=40),
)
@settings(max_examples=60, deadline=None)
def test_terms_hold_for_all_arrays_and_dependencies(policy, batches, fates, runs):
    """An array never exceeds its bound, no job starts before those for which it waits, a
    reservation is never put off, and each job starts or is dropped in the end."""
    history = _History(policy, _tasks_of(batches), fates, runs)
    now = 0
    while history.todo or history.queue.jobs:
        assert now < 4000
        history.submit_due(now)
        history.end_due(now)
        history.cancel_some(now)
        history.start(now)
        history.check()
        now += 1
    assert len(history.outcomes) == len(history.terms)
    assert not history.queue.batches
