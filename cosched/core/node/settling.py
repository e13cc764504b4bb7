"""Who runs once jobs or tasks came or went: the invariants of ``node`` are restored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cosched.core.node.fairness import bound_accounts
from cosched.core.node.messages import Cause, Command, Event
from cosched.core.node.modes import is_barred
from cosched.core.node.settings import Settings
from cosched.core.node.slices.turns import by_need, in_order_of_stay, in_the_way
from cosched.core.node.switching import switch
from cosched.core.node.table import JobState, ProcessTable


def settle(
    table: ProcessTable, settings: Settings, event: Event, cause: Cause
) -> list[Command]:
    """Schedules who may stay, and beside them who fits; ``cause`` is why those come."""
    kept, order = _who_stays(table, settings, event.now_ns)
    return switch(table, table.fitting.fill(kept, order), event.now_ns, cause)


def settle_after_turn(
    table: ProcessTable, settings: Settings, event: Event
) -> list[Command]:
    """The same after a job left whose turn may have been on. Where turns are guessed to
    outlast their jobs, this is how they end: a job that wants many CPUs would otherwise
    wait for a boundary that never comes."""
    kept, order = _who_stays(table, settings, event.now_ns)
    if settings.slice_auto:
        give_way(table.groups, table, kept, order, settings, event.now_ns)
    return switch(table, table.fitting.fill(kept, order), event.now_ns, Cause.FREED)


def give_way(
    groups: Iterable[Sequence[JobState]],
    table: ProcessTable,
    kept: list[JobState],
    order: Sequence[JobState],
    settings: Settings,
    now_ns: int,
) -> None:
    """Takes those from ``kept`` that a job of these groups waits for."""
    for job in in_the_way(groups, table, kept, order, settings, now_ns):
        kept.remove(job)


def _who_stays(
    table: ProcessTable, settings: Settings, now_ns: int
) -> tuple[list[JobState], list[JobState]]:
    """Those who keep their CPUs, and the order in which all are considered."""
    bound_accounts(table, settings, now_ns)
    kept: list[JobState] = []
    for job in in_order_of_stay(table, settings.slice_ns, now_ns):
        # What no longer fits beside those before it steps back.
        if not is_barred(job, table.raised) and table.fits([*kept, job]):
            kept.append(job)
    return kept, by_need(table, settings, now_ns)
