"""Gives turns in slices that end at multiples of their length, by the wall clock.

The number of the slice decides whose turn it is. So nodes with the same jobs and with
synchronised clocks choose alike without a message; messages correct the rest. A job that
was scheduled between two boundaries keeps its CPUs at the next one. If a job ends during a
slice, the job with the least CPU time follows.
"""

from __future__ import annotations

from collections.abc import Collection

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.messages import Event, OrderTimer
from cosched.core.node.settings import Settings
from cosched.core.node.slices.free import FreeEnds, FreeSlices

#: A turn that is short by this part of a slice counts as over. Boundaries come early or
#: late by as much as clocks differ and switches take.
EARLY_PART = 8


class AlignedEnds(FreeEnds):
    """Turns end at multiples of the slice."""

    def __init__(self, slice_ns: int) -> None:
        self.early_ns = slice_ns // EARLY_PART
        self._slice_ns = slice_ns

    def round_ns(self, turn_ns: int, most_ns: int) -> int:
        """Rounds a turn up to whole slices: nodes whose turns differ slightly then mean the
        same boundary."""
        slices = min(-(-turn_ns // self._slice_ns), most_ns // self._slice_ns)
        return slices * self._slice_ns

    def order_timer(
        self, slice_ns: int, ends_ns: Collection[int], now_ns: int
    ) -> OrderTimer:
        return OrderTimer(not ends_ns, True, slice_ns, 0)


class AlignedSlices(FreeSlices):
    """See ``policy.SlicePolicy`` for the methods."""

    ends_apart = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._ends = AlignedEnds(settings.slice_ns)

    def order(self, group: Group, event: Event) -> list[JobState]:
        """Turns go round. The job that was submitted first begins, in the slice in which it
        was submitted."""
        began = group.jobs[0].submitted_ns // self.slice_ns
        first = (event.wall_ns // self.slice_ns - began) % len(group.jobs)
        return [*group.jobs[first:], *group.jobs[:first]]

    def _grain_ns(self, group: Group) -> int:
        """A whole slice, because turns do not go by CPU time."""
        return self.slice_ns
