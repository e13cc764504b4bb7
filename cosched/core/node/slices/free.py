"""Gives turns in slices of one length, each of which begins with a switch.

A switch that a message pulls restarts the slice, so free-running timers fall into step. The
other policies are built on this one: they override what differs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.messages import Cause, Event, Job, OrderTimer
from cosched.core.node.prospect import Prospect
from cosched.core.node.settings import Settings

#: CPU times that differ by less than this part of a slice count as equal. So nodes whose
#: accounts differ slightly choose the same job.
GRAIN_PART = 4
#: A job that is this many slices ahead of a waiting job pulls no switch. Otherwise two jobs
#: that exchange many messages would keep a third one waiting.
LEAD_SLICES = 2
#: A job that was pulled in during a slice is protected for this many times GMET from jobs
#: that were submitted later. Otherwise nodes that disagree would pull each other's jobs in
#: at the end of each GMET, without end.
PRECEDENCE = 5


class FreeEnds:
    """Turns end when they have lasted long enough, at a deadline."""

    early_ns = 0  #: how much a turn may be short and still count as over

    def round_ns(self, turn_ns: int, most_ns: int) -> int:
        """Returns the turn as it is."""
        return turn_ns

    def order_timer(
        self, slice_ns: int, ends_ns: Collection[int], now_ns: int
    ) -> OrderTimer:
        """Orders CMDCSW at the first of these ends; none if there are none."""
        deadline_ns = max(now_ns, min(ends_ns)) if ends_ns else 0
        return OrderTimer(not ends_ns, False, slice_ns, deadline_ns)


class FreeSlices:
    """See ``policy.SlicePolicy`` for the methods."""

    ends_apart = True
    exit_ends_turns = False
    first_takes_over = False
    keeps_refused = True
    newcomers_precede = True

    def __init__(self, settings: Settings) -> None:
        self.slice_ns = settings.slice_ns
        self.longest_ns = settings.slice_ns
        self._settings = settings
        self._ends = FreeEnds()

    def turn_ns(self, group: Group) -> int:
        return self.slice_ns

    def gmet_ns(self, group: Group) -> int:
        return self._settings.gmet_within_ns(self.turn_ns(group))

    def is_over(self, job: JobState, group: Group, now_ns: int) -> bool:
        return job.ran_ns(now_ns) >= self.turn_ns(group) - self._ends.early_ns

    def order(self, group: Group, event: Event) -> list[JobState]:
        return self.order_now(group, event.now_ns)

    def order_now(self, group: Group, now_ns: int) -> list[JobState]:
        grain_ns = max(1, self._grain_ns(group))

        def need(job: JobState) -> int:
            return (job.used_ns(now_ns) + grain_ns // 2) // grain_ns

        return sorted(group.jobs, key=lambda job: (need(job), job.precedence))

    def _grain_ns(self, group: Group) -> int:
        return self.slice_ns // GRAIN_PART

    def protected_until_ns(
        self, job: JobState, from_jobs: Sequence[JobState], group: Group, now_ns: int
    ) -> list[int]:
        """Returns the end of GMET, or of ``PRECEDENCE`` times GMET; a job whose slice ran
        from its beginning is protected for GMET only."""
        pulled_in = job.came_by not in (Cause.SLICE, Cause.GIVEN)
        gmet_ns = self.gmet_ns(group)
        return [
            job.since_ns
            + gmet_ns
            * (PRECEDENCE if pulled_in and job.precedence < other.precedence else 1)
            for other in from_jobs
        ]

    def prospects(self, group: Group, now_ns: int) -> Mapping[Job, Prospect]:
        return {}

    def lead_ns(self, group: Group) -> int:
        return LEAD_SLICES * self.slice_ns

    def order_timer(self, contended: Iterable[Group], now_ns: int) -> OrderTimer:
        ends_ns = [
            min(job.since_ns for job in group.scheduled) + self.turn_ns(group)
            for group in contended
        ]
        return self._ends.order_timer(self.slice_ns, ends_ns, now_ns)
