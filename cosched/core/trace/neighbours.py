"""Defines what a job's record has about the jobs beside it on its node, and judges it."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from msgspec import Struct

from cosched.core.node.messages import Job
from cosched.core.symbiosis.limited import Found, Spending, find_limits, summed
from cosched.core.symbiosis.resources import Limits, Resource
from cosched.core.symbiosis.speeds import LEAST_TRIALS, Measure


class Neighbour(Struct, frozen=True):
    """The speed of a job beside others, from all trials."""

    jobs: tuple[Job, ...]  #: the keys of the others, in ascending order
    kinds: tuple[int, ...]  #: their kinds, in the same order; 0: unknown
    limited_by: tuple[tuple[str, ...], ...]  #: their labels, in the same order
    measure: Measure  #: what counts as work
    trials: int  #: how many trials there were
    alone: float  #: units of work a second alone
    beside: float  #: units of work a second beside them
    #: The speed alone over the speed beside them, the median; None: it stood still there.
    slowdown: float | None
    #: It is surely slowed by that factor or more; 0: too few trials to say.
    at_least: float = 0.0


class Sharing(Struct, frozen=True):
    """What was seen of a job that shares its nodes."""

    limited_by: tuple[str, ...]  #: what limits the job, as its user named it
    spent: (
        Spending | None
    )  #: how its tasks spent their time; None: the kernel has no account
    rested_s: float = 0.0  #: how long it rested so that others were seen alone, in seconds
    gave_way_s: float = 0.0  #: how long it gave way to a job that was slowed, in seconds
    beside: tuple[Neighbour, ...] = ()  #: its speeds beside others, the last ones


def label_of(sharing: Sharing) -> Limits:
    """Returns the label that the job's user gave; names that are no resource count for
    nothing."""
    known = {resource.value: resource for resource in Resource}
    return frozenset(known[name] for name in sharing.limited_by if name in known)


def found_limits(sharing: Sharing) -> Found | None:
    """Returns what limited the job; None if that is unknown."""
    if sharing.spent is None:
        return None
    beside: dict[bool, list[float]] = {True: [], False: []}
    for each in sharing.beside:
        if each.trials >= LEAST_TRIALS:
            memory = any(Resource.MEMORY.value in label for label in each.limited_by)
            beside[memory].append(inf if each.slowdown is None else each.slowdown)
    slowdowns = (max(beside[memory], default=None) for memory in (True, False))
    return find_limits(sharing.spent, *slowdowns)


def merged_sharing(nodes: Iterable[Sharing]) -> Sharing:
    """Returns what was seen of a job on several nodes: sums of the times of its tasks, and
    of other values the largest. nodes: one or more."""
    every = list(nodes)
    beside: dict[tuple[Job, ...], Neighbour] = {}
    for each in (neighbour for one in every for neighbour in one.beside):
        other = beside.get(each.jobs)
        if other is None or each.trials > other.trials:
            beside[each.jobs] = each
    return Sharing(
        every[0].limited_by,
        summed([one.spent for one in every if one.spent is not None]),
        max(one.rested_s for one in every),
        max(one.gave_way_s for one in every),
        tuple(beside.values()),
    )
