"""Jobs that are large for their machine have whole nodes, whatever the placement."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.cluster.queue.halves.board import Board
from cosched.core.cluster.queue.halves.placement import (
    ALL,
    LEARNED,
    OF_DOMAINS,
    USUAL_PARTS,
)
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.machine import QueueMachine
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.cluster.queue.queue_events import (
    HalvesLimited,
    JobEnded,
    JobSubmitted,
    Ticked,
)
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Resource
from cosched.sim.symbiotic.datastar import NPB
from tests.unit.cluster.symbiosis.sharing_workloads import (
    halves,
    run,
    scheduler,
    sharing_placements,
    streams,
)

SOME = settings(max_examples=50, deadline=None)
NODES = 8
PARTS = st.sampled_from((0.01, 1 / 16, 1 / 8, 1 / 4, 0.3, 1 / 2))


def job(number, size, **more):
    label = frozenset({Resource.CPU})
    return SharingJob(number, size, 10, 0, application="EP", limits=label, **more)


@pytest.mark.parametrize(
    ("part", "nodes", "largest"),
    [(1 / 8, 32, 8), (1 / 8, 33, 8), (0.1, 30, 6), (1 / 16, 4, 1), (1.0, 3, 6)],
)
def test_largest_job_is_a_part_of_the_nodes_and_at_least_one_half(part, nodes, largest):
    sizes = [size for size in range(1, 80) if job(1, size).is_up_to(part, nodes)]
    assert sizes == list(range(1, largest + 1))


@given(st.data(), sharing_placements, PARTS)
@SOME
def test_only_small_jobs_ever_have_a_neighbour(data, placement, part):
    model, stream = data.draw(streams(NODES))
    machine = run(model, stream, NODES, placement, share_up_to=part)
    largest = max(1, int(2 * NODES * part))
    there = [
        (half, machine.start_ns[at], machine.end_ns[at], entry.job)
        for at, entry in enumerate(stream)
        for half in machine.halves[at]
    ]
    for half, begin, end, one in there:
        if one.size <= largest:
            continue
        for other_half, other_begin, other_end, other in there:
            if other is not one and other_half ^ 1 == half:
                assert max(begin, other_begin) >= min(end, other_end)


@given(st.data(), sharing_placements, PARTS)
@SOME
def test_small_job_has_the_spot_that_it_has_without_the_rule(data, placement, part):
    model, stream = data.draw(streams(NODES))
    limited = halves(model, NODES, placement, share_up_to=part)
    free = halves(model, NODES, placement)
    board = Board(NODES)
    for entry in stream:
        spot = limited._fit(entry.job, board)
        if entry.job.is_up_to(part, NODES):
            assert spot == free._fit(entry.job, board)
        if spot is not None:
            board.place(entry.job, spot)


@given(st.data(), sharing_placements)
@SOME
def test_without_small_jobs_the_queue_is_plain_easy(data, placement):
    """If no job shares, each job starts when EASY starts it."""
    model, stream = data.draw(streams(NODES))
    jobs = [entry.job for entry in stream if entry.job.size > 1]
    machine = scheduler(model, NODES, placement, share_up_to=0.01)
    plain = QueueMachine(Ledger(((0, NODES - 1),)), POLICIES["easy"])
    assert starts(machine, jobs) == starts(plain, [as_plain(each) for each in jobs])


def as_plain(sharing):
    return Job(sharing.number, sharing.whole, sharing.walltime_ns, sharing.submit_ns)


def starts(machine, jobs):
    """When each job starts if all run as long as they said."""
    left, ends, found = sorted(jobs, key=lambda each: each.submit_ns), [], {}
    while left or ends:
        now = min([each.submit_ns for each in left[:1]] + [end for end, _ in ends])
        for end, number in sorted(ends):
            if end == now:
                machine.handle(JobEnded(now, number))
        ends = [entry for entry in ends if entry[0] != now]
        while left and left[0].submit_ns == now:
            machine.handle(JobSubmitted(now, left.pop(0)))
        for command in machine.handle(Ticked(now)):
            found[command.job.number] = now
            ends.append((now + command.job.walltime_ns, command.job.number))
    return found


def test_changed_rule_is_for_jobs_that_start_later():
    machine = scheduler(NPB, 4, "anyhow")
    for number in (1, 2):
        machine.handle(JobSubmitted(0, job(number, 4)))
    assert len(machine.handle(Ticked(0))) == 2
    machine.handle(HalvesLimited(1, 1 / 4))
    assert machine.place.neighbours_of(1) == [2]
    for number in (1, 2):
        machine.handle(JobEnded(2, number))
        machine.handle(JobSubmitted(2, job(number + 2, 4)))
    machine.handle(Ticked(2))
    assert machine.place.neighbours_of(3) == []
    assert not machine.waiting


def test_rule_counts_the_nodes_in_service():
    place = halves(NPB, 8, "anyhow", share_up_to=1 / 8)
    assert not place.is_too_large(job(1, 2))
    place.withdraw(((0, 3),))
    assert place.is_too_large(job(1, 2))
    assert not place.is_too_large(job(1, 2, shares=False))  # nothing to explain


def test_nodes_without_halves_have_no_such_rule():
    with pytest.raises(CoschedError, match="such nodes have no halves"):
        QueueMachine(Ledger(((0, 1),)), POLICIES["easy"]).handle(HalvesLimited(0, 0.5))


def test_each_placement_of_a_domain_has_its_rule():
    assert set(USUAL_PARTS) == {*OF_DOMAINS, LEARNED}
    for name, part in USUAL_PARTS.items():
        assert SymbiosisSettings(2, name).largest_part == part < ALL
