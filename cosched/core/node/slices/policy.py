"""Defines what a slice policy decides, and chooses the policy for the node's settings.

A policy is one object in one file. It orders the jobs of a group, sets how long a turn
lasts and when it is over, and limits the switches that messages pull. Policies do not
change jobs.

    free       one length; each job's slice runs from its switch
    aligned    one length; slices end at multiples of it by the wall clock
    adaptive   the length follows the age of the jobs; free or aligned
    rest       no turns: the job that probably ends soonest runs first
    paper      one length; the rules of Yoo and Jette without any addition
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.knowledge import Knowledge
from cosched.core.node.messages import Event, Job, OrderTimer
from cosched.core.node.prospect import Prospect
from cosched.core.node.settings import Order, Settings
from cosched.core.node.slices.adaptive import AdaptiveSlices
from cosched.core.node.slices.aligned import AlignedEnds, AlignedSlices
from cosched.core.node.slices.free import FreeEnds, FreeSlices
from cosched.core.node.slices.paper import PaperSlices
from cosched.core.node.slices.rest import RestSlices


class SlicePolicy(Protocol):
    """The decisions that depend on the kind of slices."""

    slice_ns: int
    """The slice as it is set: the shortest turn."""
    longest_ns: int
    """The longest turn."""
    ends_apart: bool
    """Whether the turns of jobs side by side end at different times. If so, a job that
    needs many CPUs never finds all of them free; jobs in their turns make room for it."""
    exit_ends_turns: bool
    """Whether jobs in their turns also make room when a job leaves."""
    first_takes_over: bool
    """Whether the jobs run in their order at all times: at each event the first ones take
    the CPUs of jobs that have had GMET. Then no turn ends."""
    keeps_refused: bool
    """Whether a refused job asks again when the reason may be gone. Otherwise its request
    is discarded, and it asks again with its next message."""
    newcomers_precede: bool
    """Whether, of jobs in their first slice, the one that was submitted first runs, also if
    another one has begun."""

    def turn_ns(self, group: Group) -> int:
        """Returns how long a job of the group keeps its CPUs while others wait."""

    def gmet_ns(self, group: Group) -> int:
        """Returns the guaranteed minimum execution time of the group's jobs."""

    def is_over(self, job: JobState, group: Group, now_ns: int) -> bool:
        """Returns whether the turn of a scheduled job is over."""

    def order(self, group: Group, event: Event) -> list[JobState]:
        """Returns all jobs of the group; the job whose turn comes next is the first."""

    def order_now(self, group: Group, now_ns: int) -> list[JobState]:
        """Returns the jobs in the order in which they take CPUs that become free during a
        turn. The least CPU time comes first, and equal jobs go by submission."""

    def protected_until_ns(
        self, job: JobState, from_jobs: Sequence[JobState], group: Group, now_ns: int
    ) -> list[int]:
        """Returns until when a scheduled job keeps its CPUs from each of these jobs."""

    def lead_ns(self, group: Group) -> int:
        """Returns how far ahead of a waiting job a job may be and still pull a switch."""

    def prospects(self, group: Group, now_ns: int) -> Mapping[Job, Prospect]:
        """Returns why each job has its place in the order; empty if jobs take turns."""

    def order_timer(self, contended: Iterable[Group], now_ns: int) -> OrderTimer:
        """Returns when the timer daemon sends CMDCSW; no slice ends without such groups."""


#: Returns the policy for some settings; the jobs that ended last may change later.
ChoosePolicy: TypeAlias = Callable[[Settings, Knowledge], SlicePolicy]


def choose_policy(settings: Settings, knowledge: Knowledge) -> SlicePolicy:
    """Returns the policy for these settings.

    A policy may read ``knowledge``, the jobs that ended last, at any time.
    """
    if settings.order is Order.PAPER:
        return PaperSlices(settings)
    if not settings.slice_auto:
        return AlignedSlices(settings) if settings.align else FreeSlices(settings)
    if settings.order is Order.REST:
        return RestSlices(settings, knowledge)
    ends = AlignedEnds(settings.slice_ns) if settings.align else FreeEnds()
    return AdaptiveSlices(settings, ends, knowledge)
