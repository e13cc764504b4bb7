"""Whether a trapped message may pull a switch: what speaks against it.

Yoo and Jette, section 2.2.3, CMDSCH: the asking job is scheduled if what runs has had its
guaranteed minimum execution time (GMET).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.node.messages import Cause, Mode, Refusal
from cosched.core.node.modes import is_barred
from cosched.core.node.settings import Settings
from cosched.core.node.slices.turns import guaranteed_ns, turn_ns
from cosched.core.node.table import JobState, ProcessTable

#: How far ahead of the neediest waiting job a job may be and still pull a switch.
LEAD_SLICES = 2
#: How many times GMET a job that came in amid a slice keeps from those submitted later.
PRECEDENCE = 5


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a switch is refused: ``by_ns`` is the time that is left, or the job's lead;
    ``other`` is the job on whose account it is."""

    reason: Refusal
    by_ns: int = 0
    other: JobState | None = None

    @property
    def passes(self) -> bool:
        """Whether it is only a matter of time."""
        return self.reason in (Refusal.GMET, Refusal.PRECEDED)

    @property
    def holds_until_a_switch(self) -> bool:
        """Whether it may be gone once others are scheduled, or have left."""
        return self.reason in (Refusal.AHEAD, Refusal.BARRED)


def guaranteed_until_ns(running: JobState, asking: JobState, gmet_ns: int) -> int:
    """Until when a scheduled job keeps its CPUs from one that a message asks for.

    GMET; but ``PRECEDENCE`` times that if it came in amid a slice and was submitted
    before the other. Else many nodes that disagree pull each other's jobs in, all at the
    end of the same GMET, for ever. Who has its slice gives it up to anybody.
    """
    has_its_turn = running.came_by in (Cause.SLICE, Cause.GIVEN)
    if not has_its_turn and running.precedence < asking.precedence:
        gmet_ns *= PRECEDENCE
    return running.since_ns + gmet_ns


def objection(
    job: JobState,
    epoch: int,
    group: Sequence[JobState],
    table: ProcessTable,
    settings: Settings,
    now_ns: int,
) -> Objection | None:
    """What speaks against scheduling ``job`` because of a message, if anything does.

    ``epoch`` is that of the request, in its low 32 bits; ``group`` are the jobs that it
    competes with, itself among them, or empty if it does not take part.
    """
    if job.mode is Mode.SUSPENDED:
        return Objection(Refusal.SUSPENDED)
    if job.scheduled or job.mode is Mode.RELEASED:
        return Objection(Refusal.SCHEDULED)
    if (job.epoch ^ epoch) & 0xFFFFFFFF:
        return Objection(Refusal.STALE)
    if is_barred(job, table.raised):
        return Objection(Refusal.BARRED)
    rivals = [other for other in group if not is_barred(other, table.raised)]
    gmet_ns = guaranteed_ns(group, table, settings)
    lead_ns = LEAD_SLICES * settings.slice_ns
    if settings.slice_auto:  # a turn ahead is who has just had his
        lead_ns = settings.slice_ns + turn_ns(group, table, settings)
    return _too_soon(job, group, gmet_ns, now_ns) or _too_far_ahead(
        job, rivals, lead_ns, now_ns
    )


def _too_soon(
    job: JobState, group: Sequence[JobState], gmet_ns: int, now_ns: int
) -> Objection | None:
    displaced = [other for other in group if other.scheduled]
    if not displaced:
        return None
    last = max(
        displaced, key=lambda other: (guaranteed_until_ns(other, job, gmet_ns), other.key)
    )
    until_ns = guaranteed_until_ns(last, job, gmet_ns)
    if until_ns <= now_ns:
        return None
    longer = until_ns > last.since_ns + gmet_ns
    return Objection(Refusal.PRECEDED if longer else Refusal.GMET, until_ns - now_ns, last)


def _too_far_ahead(
    job: JobState, group: Sequence[JobState], lead_ns: int, now_ns: int
) -> Objection | None:
    neediest = min(
        (other for other in group if not other.scheduled),
        key=lambda other: (other.used_ns(now_ns), other.precedence),
    )
    ahead_ns = job.used_ns(now_ns) - neediest.used_ns(now_ns)
    if ahead_ns > lead_ns:
        return Objection(Refusal.AHEAD, ahead_ns, neediest)
    return None
