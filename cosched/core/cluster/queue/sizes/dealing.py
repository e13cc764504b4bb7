"""Computes how many nodes each job gives or gets, one node at a time.

Each function returns an amount for each job, in order. Their sum is ``count``, or less if
the jobs have no more room. A job is a run, or ``Bounds`` in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple, TypeAlias

from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun

Amounts: TypeAlias = list[int]


class Bounds(NamedTuple):
    """The size of a job, between narrower bounds than its own."""

    size: int  #: in nodes
    minimum: int  #: the least size that is left after a gift of its nodes
    ideal: int  #: the greatest size that it may get


Sized: TypeAlias = ResizableRun | Bounds


def divide_evenly(rooms: Sequence[int], count: int) -> Amounts:
    """Deals ``count`` round robin in the given order, to each at most its room."""
    amounts = [0] * len(rooms)
    active = [place for place, room in enumerate(rooms) if room]
    while active and count >= len(active):
        # Deals as many full rounds at once as all of them have room for.
        rounds = min(count // len(active), *(rooms[p] - amounts[p] for p in active))
        for place in active:
            amounts[place] += rounds
        count -= rounds * len(active)
        active = [place for place in active if amounts[place] < rooms[place]]
    for place in active[:count]:
        amounts[place] += 1
    return amounts


def take_evenly(victims: Sequence[Sized], count: int) -> Amounts:
    """Takes one node from each job in turn, down to its minimum."""
    return divide_evenly([job.size - job.minimum for job in victims], count)


def give_evenly(receivers: Sequence[Sized], count: int) -> Amounts:
    """Gives one node to each job in turn, up to its ideal."""
    return divide_evenly([job.ideal - job.size for job in receivers], count)


def take_least_impact(victims: Sequence[Sized], count: int) -> Amounts:
    """Takes each node from the job that then keeps the greatest share of its ideal."""

    def rank(job: Sized, taken: int) -> float | None:
        size = job.size - taken
        return -(size - 1) / job.ideal if size > job.minimum else None

    return _one_by_one(victims, count, rank)


def give_most_impact(receivers: Sequence[Sized], count: int) -> Amounts:
    """Gives each node to the job that has the least share of its ideal."""

    def rank(job: Sized, given: int) -> float | None:
        size = job.size + given
        return size / job.ideal if size < job.ideal else None

    return _one_by_one(receivers, count, rank)


def _one_by_one(
    jobs: Sequence[Sized],
    count: int,
    rank: Callable[[Sized, int], float | None],
) -> Amounts:
    """Deals each node to the job with the least rank. ``rank`` takes a job and its amount
    so far; it returns None for a job without room."""
    amounts = [0] * len(jobs)
    ranks = ((rank(job, 0), place) for place, job in enumerate(jobs))
    heap = [(least, place) for least, place in ranks if least is not None]
    heapify(heap)
    while heap and count:
        place = heap[0][1]
        amounts[place] += 1
        count -= 1
        again = rank(jobs[place], amounts[place])
        if again is None:
            heappop(heap)
        else:
            heapreplace(heap, (again, place))
    return amounts
