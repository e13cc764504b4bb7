"""Tests aligned blocks of nodes, and queues whose jobs get them."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.nodes import FreeNodes, count, from_numbers, without
from cosched.core.cluster.queue.places.blocks import FreeBlocks
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_commands import StartJob
from cosched.core.cluster.queue.queue_events import JobEnded, JobSubmitted, Ticked
from cosched.core.errors import CoschedError

MACHINE = ((0, 23),)  # six units of four nodes


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [(1, 4), (4, 4), (5, 8), (9, 16), (16, 16), (17, 24), (24, 24)],
)
def test_a_job_gets_a_power_of_two_or_everything(wanted, nodes):
    pool = FreeBlocks(MACHINE, 4)
    assert pool.width(wanted) == nodes
    assert count(pool.take(wanted)) == nodes
    assert pool.total == 24 - nodes


def test_small_jobs_fill_the_smallest_gap():
    pool = FreeBlocks(MACHINE, 4)
    assert pool.take(1) == ((16, 19),)  # the last two units are no part of a larger block
    assert pool.take(1) == ((20, 23),)
    assert pool.take(1) == ((0, 3),)
    assert pool.take(1) == ((4, 7),)
    pool.give(((0, 3),))
    assert pool.take(8) == ((8, 15),)


def surroundings(free: set[int], begin: int, width: int, units: int) -> int:
    """The size of the largest free aligned block around this one."""
    while width < units:
        wider = 2 * width
        start = begin // wider * wider
        if start + wider > units or not free >= set(range(start, start + wider)):
            break
        begin, width = start, wider
    return width


@given(
    units=st.integers(1, 24),
    busy=st.sets(st.integers(0, 23)),
    kept=st.integers(1, 24),
    width=st.sampled_from([1, 2, 4, 8, 16]),
)
@settings(max_examples=120, deadline=None)
def test_a_job_gets_the_block_with_least_free_surroundings(units, busy, kept, width):
    pool = FreeBlocks(((0, units - 1),), 1)
    for unit in sorted(busy & set(range(units))):
        pool.take_exactly(((unit, unit),))
    free = set(range(units)) - busy
    width = min(width, pool.width(units))
    pool.keep(min(kept, units))
    first = pool.copy().take(min(kept, units)) if pool.fits(min(kept, units)) else ()
    avoided = {unit for begin, end in first for unit in range(begin, end + 1)}
    found = [
        (
            bool(avoided & set(range(begin, begin + width))),
            surroundings(free, begin, width, units),
            begin,
        )
        for begin in range(0, units - width + 1, width)
        if free >= set(range(begin, begin + width))
    ]
    assert pool.fits(width) == bool(found)
    assert pool.fits_beside(width, 0) == any(not overlaps for overlaps, _, _ in found)
    if found:
        begin = min(found)[2]
        assert pool.take(width) == ((begin, begin + width - 1),)


@given(units=st.integers(1, 24), busy=st.sets(st.integers(0, 23)))
@settings(max_examples=50, deadline=None)
def test_the_nodes_of_units_are_free_or_taken(units, busy):
    pool = FreeBlocks(((0, 4 * units - 1),), 4)
    taken = from_numbers(
        number for unit in busy if unit < units for number in range(4 * unit, 4 * unit + 4)
    )
    pool.take_exactly(taken)
    assert pool.intervals == without(((0, 4 * units - 1),), taken)
    assert pool.total == 4 * units - count(taken)
    if taken:
        with pytest.raises(CoschedError, match="some are not free"):
            pool.take_exactly(taken)
    pool.give(taken)
    assert pool.intervals == ((0, 4 * units - 1),)
    with pytest.raises(CoschedError, match="some are free already"):
        pool.give(((0, 3),))


def test_enough_nodes_and_no_block():
    pool = FreeBlocks(MACHINE, 4)
    pool.take_exactly(((4, 7), (12, 15)))
    assert pool.total == 16
    assert pool.fits(8)
    pool.take(8)
    assert not pool.fits(5)
    with pytest.raises(CoschedError, match="5 nodes wanted, and no such block is free"):
        pool.take(5)


def test_what_is_no_block_is_refused():
    with pytest.raises(CoschedError, match="24 nodes is not made of blocks of 5"):
        FreeBlocks(MACHINE, 5)
    with pytest.raises(CoschedError, match="nodes 2-5 are no blocks of 4"):
        FreeBlocks(MACHINE, 4).take_exactly(((2, 5),))


JOBS = st.lists(
    st.tuples(st.integers(1, 24), st.integers(1, 9), st.integers(0, 12)),
    min_size=1,
    max_size=15,
)


def run(jobs, policy, allocation):
    """Runs jobs of (size, walltime, submission); returns their starts and nodes."""
    queue = QueueMachine(Ledger(MACHINE, allocation=allocation), POLICIES[policy])
    ends, starts, now = {}, {}, 0
    while len(starts) < len(jobs):
        for number in [number for number, end in ends.items() if end == now]:
            del ends[number]
            queue.handle(JobEnded(now, number))
        for number, (size, wall, submit) in enumerate(jobs):
            if submit == now:
                queue.handle(JobSubmitted(now, Job(number, size, wall, now)))
        for command in queue.handle(Ticked(now)):
            if isinstance(command, StartJob):
                number = command.job.number
                starts[number] = (now, command.nodes)
                ends[number] = now + jobs[number][1]
        now += 1
        assert now < 1000
    return starts


def soonest(wanted, now, held):
    """The first moment at which the held blocks leave one of this many nodes free."""
    for at in sorted({now, *(end for end, _ in held)}):
        used = {unit for end, units in held if end > at for unit in units}
        for begin in range(0, 6 - wanted // 4 + 1, wanted // 4):
            if not used & set(range(begin, begin + wanted // 4)):
                return at
    raise AssertionError("the machine is free in the end")


@given(jobs=JOBS)
@settings(max_examples=50, deadline=None)
def test_the_expected_start_is_that_of_the_first_free_block(jobs):
    """Also if it was asked for before, and jobs have started and ended since."""
    ledger = Ledger(MACHINE, allocation=partial(FreeBlocks, unit=4))
    held, now = {}, 0
    for number, (size, wall, gap) in enumerate(jobs):
        now += gap
        for ended in [one for one, (end, _) in held.items() if end <= now]:
            ledger.release(ended)
            del held[ended]
        job = Job(number, size, wall, now)
        spot = ledger.find(job)
        if spot is not None:
            ((first, last),) = ledger.occupy(job, spot, now)
            held[number] = now + wall, range(first // 4, last // 4 + 1)
        for wanted in (4, 8, 16, 24):
            assert ledger.expected_ns(wanted, now) == soonest(wanted, now, held.values())


@given(jobs=JOBS, policy=st.sampled_from(["fcfs", "easy", "wfp"]))
@settings(max_examples=50, deadline=None)
def test_blocks_are_aligned_and_belong_to_one_job(jobs, policy):
    starts = run(jobs, policy, partial(FreeBlocks, unit=4))
    busy = []
    for number, (start, ((first, last),)) in starts.items():
        width = last - first + 1
        assert width >= jobs[number][0]
        assert width == 24 or first % width == 0
        busy.append((start, start + jobs[number][1], first, last))
    for place, (start, end, first, last) in enumerate(busy):
        for other_start, other_end, other_first, other_last in busy[:place]:
            together = start < other_end and other_start < end
            assert not (together and first <= other_last and other_first <= last)


@given(jobs=JOBS, policy=st.sampled_from(["fcfs", "easy", "wfp"]))
@settings(max_examples=50, deadline=None)
def test_units_of_one_machine_are_the_whole(jobs, policy):
    """With a single unit each job runs alone, in blocks as in nodes of full size."""
    full = [(24, wall, submit) for _, wall, submit in jobs]
    blocks = run(jobs, policy, partial(FreeBlocks, unit=24))
    if policy != "wfp":  # its order depends on the size
        assert {n: at for n, (at, _) in blocks.items()} == {
            n: at for n, (at, _) in run(full, policy, FreeNodes).items()
        }


@given(jobs=JOBS)
@settings(max_examples=50, deadline=None)
def test_backfill_delays_no_first_job(jobs):
    """The block that the first waiting job will get is not given to a later job for longer
    than until then."""
    blocks = Ledger(MACHINE, allocation=partial(FreeBlocks, unit=4))
    queue = QueueMachine(blocks, POLICIES["easy"])
    for number, (size, wall, _) in enumerate(jobs):
        queue.handle(JobSubmitted(0, Job(number, size, wall, 0)))
    ends, promised, now = {}, {}, 0
    while queue.waiting or ends:
        for number in [number for number, end in ends.items() if end == now]:
            del ends[number]
            queue.handle(JobEnded(now, number))
        for command in queue.handle(Ticked(now)):
            if isinstance(command, StartJob):
                number = command.job.number
                ends[number] = now + jobs[number][1]
                assert now <= promised.get(number, now)
        if queue.planner.reservation is not None:
            job, shadow = queue.planner.reservation
            promised.setdefault(job.number, shadow)
        now += 1
        assert now < 1000
