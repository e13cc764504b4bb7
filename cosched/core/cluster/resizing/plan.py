"""Finds which ranks a change makes and ends, and the order of the ranks after it.

Ranks that were started together are a *world*: MPI_Init or one MPI_Comm_spawn made them.
They stay connected until MPI_Finalize, so a world ends as a whole. If only some nodes of a
world leave, its ranks on the other nodes are *replaced*: new processes on the same nodes
take their places and their data. A change makes one new world: the replacements, then the
arrivals.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from cosched.core.cluster.resizing.change import Change
from cosched.core.errors import CoschedError


class Spot(Struct, frozen=True):
    """Where a rank runs."""

    place: int  #: of its node in the job
    host: str  #: as MPI_Comm_spawn takes it; empty: any node


class Rank(Struct, frozen=True):
    """A rank of a job."""

    world: int  #: the generation that started it; 0: the job's begin
    spot: Spot  #: where it runs


class Plan(Struct, frozen=True):
    """A change in terms of ranks. Numbers below the job's size are its ranks before the
    change; the others are those of the new world, in order."""

    spawned: tuple[Spot, ...]  #: the ranks of the new world
    ends: tuple[bool, ...]  #: whether a rank ends, for each rank before the change
    order: tuple[int, ...]  #: the ranks after the change, in order
    ranks: tuple[Rank, ...]  #: the same ranks
    ended_worlds: frozenset[int]  #: all of whose ranks end


def plan(ranks: Sequence[Rank], change: Change) -> Plan:
    """Returns the plan of a change. ranks: the ranks of the job before it. Raises
    CoschedError for a change that the job cannot make."""
    leaving = frozenset(change.leaving)
    _check(ranks, leaving, change)
    ended = frozenset(each.world for each in ranks if each.spot.place in leaving)
    spawned: list[Spot] = []
    order: list[int] = []
    for number, rank in enumerate(ranks):
        if rank.world not in ended:
            order.append(number)
        elif rank.spot.place not in leaving:
            order.append(len(ranks) + len(spawned))
            spawned.append(rank.spot)
    for arrival in change.arriving:
        order += [len(ranks) + len(spawned) + each for each in range(arrival.ranks)]
        spawned += [Spot(arrival.place, arrival.host)] * arrival.ranks
    if not order:
        raise CoschedError("no rank of the job would stay")
    fresh = [Rank(change.generation, spot) for spot in spawned]
    all_ranks = [*ranks, *fresh]
    return Plan(
        tuple(spawned),
        tuple(rank.world in ended for rank in ranks),
        tuple(order),
        tuple(all_ranks[rank] for rank in order),
        ended,
    )


def _check(ranks: Sequence[Rank], leaving: frozenset[int], change: Change) -> None:
    places = {rank.spot.place for rank in ranks}
    for place in leaving - places:
        raise CoschedError(f"node {place} has no rank of the job, so it cannot leave")
    for arrival in change.arriving:
        if arrival.place in leaving:
            raise CoschedError(f"node {arrival.place} cannot leave and come in one change")
