"""Placement on halves, and EASY over them, whatever the jobs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.halves.board import Board, Placed
from cosched.core.cluster.queue.halves.halves import Halves
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.placement import (
    PLACEMENTS,
    by_labels,
    by_labels_anyhow,
    by_learner,
    spread,
)
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted, Ticked
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import SHARED, Resource
from cosched.sim.symbiotic.datastar import DATASTAR, NPB
from cosched.sim.symbiotic.symbiotic_runs import ORDERS
from tests.unit.cluster.symbiosis.sharing_workloads import (
    placements,
    run,
    scheduler,
    streams,
)

SOME = settings(max_examples=60, deadline=None)
NODES = 4
LABELS = {
    "mem": frozenset({Resource.MEMORY}),
    "io": frozenset({Resource.IO}),
    "cpu": frozenset({Resource.CPU}),
}


def job(number, size, kind="cpu", walltime=10):
    return SharingJob(number, size, walltime, 0, application=kind, limits=LABELS[kind])


def board_with(*jobs_at):
    allocation = Board(2)
    for one, halves in jobs_at:
        allocation.place(one, Placed(halves))
    return allocation


@pytest.mark.parametrize(
    ("placement", "wanted", "spot"),
    [
        ("whole", job(9, 1), Placed((2,), (3,))),
        ("whole", job(9, 2), Placed((2, 3))),
        ("whole", job(9, 3), None),
        ("packed", job(9, 1, "mem"), Placed((1,))),  # with any neighbour
        ("packed", job(9, 3), Placed((2, 3, 1))),
        ("packed", job(9, 4), None),
        ("split", job(9, 1, "mem"), Placed((2,))),
        ("split", job(9, 1, "io"), Placed((1,))),
        ("split", job(9, 2, "mem"), None),
        ("split", job(9, 2, "cpu"), Placed((1, 3))),
        ("labels", job(9, 1, "mem"), Placed((2,))),  # not beside the other one
        ("labels", job(9, 1, "cpu"), Placed((1,))),  # the other one gains
        ("labels", job(9, 2, "mem"), Placed((2, 3))),  # its whole node is free sooner
        ("labels", job(9, 4, "mem"), None),
        ("labels", job(9, 3, "cpu"), None),  # whole nodes of its own
        ("anyhow", job(9, 2, "mem"), Placed((2, 1))),
        ("anyhow", job(9, 2, "io"), Placed((1, 2))),
    ],
)
def test_placement_beside_job_limited_by_memory(placement, wanted, spot):
    allocation = board_with((job(0, 1, "mem"), (0,)))
    assert PLACEMENTS[placement](wanted, allocation) == spot


def test_affinities():
    mem, io, cpu = (job(0, 1, kind) for kind in ("mem", "io", "cpu"))
    assert (by_labels(mem, mem), by_labels(mem, io), by_labels(mem, cpu)) == (None, 2, 1)
    assert (by_labels_anyhow(mem, mem), by_labels_anyhow(cpu, cpu)) == (-2, 0)
    learner = Learner(LABELS)
    learner.observe("mem", "io", 0.5)
    assert by_learner(learner)(mem, io) < by_learner(learner)(mem, mem) + 0.1
    assert spread(by_learner(learner))(mem, board_with((io, (0,)))) == Placed((2,))


@given(st.data())
@SOME
def test_job_that_fits_still_fits_after_others_end(data):
    """Plans rest on it."""
    name = data.draw(st.sampled_from(list(PLACEMENTS)))
    _, stream = data.draw(streams(NODES))
    allocation = Board(NODES)
    there = []
    for entry in stream:
        spot = PLACEMENTS[name](entry.job, allocation)
        if spot is not None:
            allocation.place(entry.job, spot)
            there.append(entry.job.number)
    wanted = data.draw(streams(NODES))[1][0].job
    fits = PLACEMENTS[name](wanted, allocation) is not None
    for number in data.draw(st.permutations(there)):
        allocation.remove(number)
        now = PLACEMENTS[name](wanted, allocation) is not None
        assert now >= fits
        fits = now
    assert fits
    assert allocation.free == 2 * NODES


@given(st.data(), placements, st.sampled_from(list(ORDERS)), st.integers(1, 12))
@SOME
def test_halves_run_one_job_each(data, placement, order, queue_limit):
    """Each job runs once. No half has two jobs. Jobs run as fast as the matrix allows."""
    model, stream = data.draw(streams(NODES))
    machine = run(model, stream, NODES, placement, order, queue_limit)
    matrix = model.matrix
    taken = [[] for _ in range(2 * NODES)]
    for place, entry in enumerate(stream):
        begin, end = machine.start_ns[place], machine.end_ns[place]
        assert entry.job.submit_ns <= machine.submit_ns[place] <= begin <= end
        assert len(set(machine.halves[place])) == entry.job.size
        own = matrix.names.index(entry.job.application)
        speeds = (*matrix.rows[own], matrix.idle[own])
        # Half a nanosecond of rounding for each change of speed.
        slack = 2 * len(stream)
        assert entry.run_ns / max(speeds) - slack <= end - begin
        assert end - begin <= entry.run_ns / min(speeds) + slack
        for half in machine.halves[place]:
            taken[half].append((begin, end))
    for spans in taken:
        spans.sort()
        for (_, end), (begin, _) in pairwise(spans):
            assert end <= begin
    assert run(model, stream, NODES, placement, order, queue_limit).end_ns == machine.end_ns


@given(st.data())
@SOME
def test_labels_never_pairs_jobs_with_warning(data):
    model, stream = data.draw(streams(NODES))
    machine = run(model, stream, NODES, "labels")
    there = [
        (half, machine.start_ns[place], machine.end_ns[place], entry.job)
        for place, entry in enumerate(stream)
        for half in machine.halves[place]
    ]
    for half, begin, end, one in there:
        for other_half, other_begin, other_end, other in there:
            if other is one or other_half != half ^ 1:
                continue
            if max(begin, other_begin) < min(end, other_end):
                assert not one.limits & other.limits & SHARED


class Clock:
    """Drives a machine by hand; jobs run exactly as long as they said."""

    def __init__(self, machine, submitted, wrap):
        self.machine, self.wrap = machine, wrap
        self.jobs = list(submitted)
        self.starts = {}

    def run(self):
        ends, now, left = [], 0, list(self.jobs)
        while left or ends:
            now = min([job.submit_ns for job in left[:1]] + [end for end, _ in ends])
            for end, number in sorted(ends):
                if end == now:
                    self.machine.handle(JobEnded(now, number))
            ends = [entry for entry in ends if entry[0] != now]
            while left and left[0].submit_ns == now:
                self.machine.handle(self.wrap(now, left.pop(0)))
            for command in self.machine.handle(Ticked(now)):
                started = command.job
                self.starts[started.number] = now
                ends.append((now + started.walltime_ns, started.number))
        return self.starts


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 20), st.integers(1, 2 * NODES)),
        min_size=1,
        max_size=25,
    )
)
@SOME
def test_equal_halves_give_plain_easy(rows):
    """With jobs of one kind there is nothing to choose: the plain queue says the same."""
    rows = sorted((submit, walltime, min(size, NODES)) for submit, walltime, size in rows)
    plain = [Job(place, size, told, at) for place, (at, told, size) in enumerate(rows)]
    halves = [
        SharingJob(place, size, told, at, application="cpu", limits=LABELS["cpu"])
        for place, (at, told, size) in enumerate(rows)
    ]
    # Bottom halves only: as many as the plain machine has nodes.
    queue = QueueMachine(Ledger(((0, NODES - 1),)), POLICIES["easy"])
    split = Halves(((0, NODES - 1),), PLACEMENTS["split"], Learner(LABELS))
    machine = QueueMachine(split, POLICIES["easy"])
    expected = Clock(queue, plain, JobSubmitted).run()
    assert Clock(machine, halves, JobSubmitted).run() == expected


@given(st.data(), placements)
@SOME
def test_no_start_delays_the_reserved_job(data, placement):
    """With correct walltimes and fixed speedups, the first job of the queue never starts
    later than its reservation."""
    model, stream = data.draw(streams(NODES))
    machine = scheduler(model, NODES, placement)
    promised, ends, now = {}, [], 0
    for entry in stream:
        machine.handle(JobSubmitted(now, entry.job))
    while True:
        for command in machine.handle(Ticked(now)):
            assert now <= promised.get(command.job.number, now)
            ends.append((now + command.job.walltime_ns, command.job.number))
        if machine.planner.reservation is not None:
            head, at_ns = machine.planner.reservation
            promised.setdefault(head.number, at_ns)
        if not ends:
            break
        now = min(ends)[0]
        for end, number in sorted(ends):
            if end == now:
                machine.handle(JobEnded(now, number))
        ends = [entry for entry in ends if entry[0] != now]
    assert not machine.waiting


def test_invalid_input_is_refused():
    machine = scheduler(NPB, 2, "labels")
    machine.handle(JobSubmitted(0, job(1, 1)))
    for wrong, words in (
        (job(2, 5), "job 2 wants 5 halves of nodes; the machine has 2 nodes"),
        (job(2, 0), "job 2 wants 0 halves"),
        (job(2, 1, walltime=0), "job 2 has no walltime"),
        (job(1, 1), "job 1: waits, and cannot be submitted"),
    ):
        with pytest.raises(CoschedError, match=words):
            machine.handle(JobSubmitted(0, wrong))
    with pytest.raises(CoschedError, match="job 1: waits, and cannot be ended"):
        machine.handle(JobEnded(0, 1))
    with pytest.raises(TypeError, match="not an event of a queue"):
        machine.handle(object())
    with pytest.raises(CoschedError, match="a machine of 0 nodes"):
        scheduler(DATASTAR, 0, "whole")


def test_what_does_not_combine_with_halves_is_refused():
    halves = Halves(((0, 1),), PLACEMENTS["labels"], Learner(LABELS))
    with pytest.raises(CoschedError, match="not with blocks or halves"):
        QueueMachine(halves, POLICIES["conservative"])
    machine = QueueMachine(halves, POLICIES["easy"])
    with pytest.raises(CoschedError, match="job 1: halves of nodes are for jobs that"):
        machine.handle(JobSubmitted(0, Job(1, 1, 1, 0)))


def test_each_pass_over_halves_reads_all_jobs():
    """The halves for a job depend on its neighbours, so a job that was turned down may have
    other halves at the next submission."""
    machine = QueueMachine(
        Halves(((0, 1),), PLACEMENTS["anyhow"], Learner(LABELS)), POLICIES["easy"]
    )
    for number, size in enumerate((2, 4, 2)):
        machine.handle(JobSubmitted(number, job(number, size)))
        machine.handle(Ticked(number))
    assert machine.planner.counts.passes == 3
    assert machine.planner.counts.passes_over_newcomers == 0
