"""Whose turn it is on a node, and when a turn is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosched.core.node.messages import Cause, Event
from cosched.core.node.settings import Settings
from cosched.core.node.slices.adapting import turn_by_age_ns
from cosched.core.node.table import JobState, ProcessTable


def turn_ns(group: Sequence[JobState], table: ProcessTable, settings: Settings) -> int:
    """How long the jobs of a group keep their CPUs at a time while others wait."""
    least_ns, longest_ns = settings.slice_ns, settings.longest_slice_ns
    if not settings.slice_auto:
        return least_ns
    youngest_ns = min(job.received_ns for job in group)
    wanted_ns = turn_by_age_ns(youngest_ns, table.ended_ns, least_ns, longest_ns)
    if not settings.align:
        return wanted_ns
    # Turns end at boundaries: nodes whose guesses differ slightly mean the same one.
    return min(-(-wanted_ns // least_ns), longest_ns // least_ns) * least_ns


def turn_end_ns(group: Sequence[JobState], table: ProcessTable, settings: Settings) -> int:
    """When the first turn of those that are scheduled is over, if slices run freely."""
    began_ns = min(job.since_ns for job in group if job.scheduled)
    return began_ns + turn_ns(group, table, settings)


def guaranteed_ns(
    group: Sequence[JobState], table: ProcessTable, settings: Settings
) -> int:
    """GMET of the jobs of a group."""
    return settings.gmet_within_ns(turn_ns(group, table, settings))


def in_order(table: ProcessTable, settings: Settings, event: Event) -> list[JobState]:
    """All jobs that take part: the raised ones, then those whose turn it is."""
    if settings.align and not settings.slice_auto:
        ordered = by_turn(table.groups, event.wall_ns, settings.slice_ns)
        return _raised_first(ordered, table)
    return by_need(table, settings, event.now_ns)


def by_turn(
    groups: Iterable[Sequence[JobState]], wall_ns: int, slice_ns: int
) -> list[JobState]:
    """Aligned slices of one length: turns go round from the slice in which a group's first
    job was submitted, so that nodes with the same jobs choose alike, and it runs first."""
    ordered: list[JobState] = []
    for group in groups:
        turn = wall_ns // slice_ns - group[0].submitted_ns // slice_ns
        first = turn % len(group)
        ordered += [*group[first:], *group[:first]]
    return ordered


def by_need(table: ProcessTable, settings: Settings, now_ns: int) -> list[JobState]:
    """The raised jobs, then the least CPU time first; times that differ by less than a
    grain are equal, and equal jobs go by precedence: nodes whose accounts differ slightly
    choose alike."""
    keyed = []
    for group in table.groups:
        grain_ns = max(1, _grain_ns(group, table, settings))
        keyed += [((job.used_ns(now_ns) + grain_ns // 2) // grain_ns, job) for job in group]
    keyed.sort(key=lambda pair: (pair[0], pair[1].precedence))
    return _raised_first([job for _, job in keyed], table)


def _raised_first(ordered: list[JobState], table: ProcessTable) -> list[JobState]:
    if table.raised:
        ordered.sort(key=lambda job: not job.alone)
    return ordered


def _grain_ns(group: Sequence[JobState], table: ProcessTable, settings: Settings) -> int:
    """Turns that grow are long: who came first and has had a little more than the others
    is not to wait for a turn of each of them."""
    if settings.slice_auto:
        return turn_ns(group, table, settings)
    return settings.slice_ns // (1 if settings.align else 4)


def due(table: ProcessTable, settings: Settings, now_ns: int) -> list[JobState]:
    """The contended jobs whose slice is over.

    An aligned slice ends at a boundary, which comes sooner or later by as much as the
    clocks were set and the switch was late: hence the tolerance.
    """
    early_ns = settings.slice_ns // 8 if settings.align else 0
    found: list[JobState] = []
    for group in table.contended():
        after_ns = turn_ns(group, table, settings) - early_ns
        found += [job for job in group if job.scheduled and job.ran_ns(now_ns) >= after_ns]
    return found


def in_the_way(
    groups: Iterable[Sequence[JobState]],
    table: ProcessTable,
    kept: Sequence[JobState],
    order: Sequence[JobState],
    settings: Settings,
    now_ns: int,
) -> list[JobState]:
    """Of ``kept``, those amid a slice that a job of these groups with the right to the next
    one wants CPUs of: they give way if they have had GMET, for a job that wants many CPUs
    would never find all of them free at once."""
    found: list[JobState] = []
    for group in groups:
        first = next(job for job in order if job in group)
        if first not in kept and not table.fits([*kept, first]):
            gmet_ns = guaranteed_ns(group, table, settings)
            found += [
                job
                for job in group
                if job in kept
                and job.ran_ns(now_ns) >= gmet_ns
                and not job.cpus.isdisjoint(first.cpus)
            ]
    return found


def in_order_of_stay(table: ProcessTable, slice_ns: int, now_ns: int) -> list[JobState]:
    """Those that may stay or come when jobs came or went amid a slice, first ones first.

    Who is scheduled stays, the longer the rather. But jobs that start together reach the
    nodes in any order: of those in their first slice the one that was submitted first
    stays, or comes in the place of the others.
    """
    new = {
        job.key
        for job in table.jobs.values()
        if job.mode.takes_part and _is_new(job, slice_ns, now_ns)
    }
    stay = sorted(
        (job for job in table.scheduled() if job.key not in new),
        key=lambda job: (job.since_ns, job.precedence),
    )
    for group in table.groups:
        young = [job for job in group if job.key in new]  # by precedence
        last = max((n for n, job in enumerate(young) if job.scheduled), default=-1)
        stay += young[: last + 1]
    return stay


def _is_new(job: JobState, slice_ns: int, now_ns: int) -> bool:
    return (
        job.came_by is Cause.FIRST
        and job.switches <= 1
        and job.received_ns + job.ran_ns(now_ns) < slice_ns
    )
