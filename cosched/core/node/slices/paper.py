"""Gives turns by the paper's own rules alone (``order=paper``).

Yoo and Jette, "A Coscheduling Technique for Symmetric Multiprocessor Clusters". The rules
that this file overrides are additions of cosched:

- The timer sends CMDCSW once in each slice, from its own start on (section 2.2.3, "Timer
  Daemon"). A switch that a message pulls does not restart the slice, and the ticks of two
  nodes have nothing to do with each other.
- CMDCSW schedules the job that has received the least CPU time (sections 2.1 and 2.2.3).
  Accounts begin at zero and are compared exactly.
- CMDSCH schedules the asking job once the scheduled job has had GMET; otherwise the request
  is discarded (section 2.2.3). No job precedes another one, and none is too far ahead.
- A new job runs at once only if no other job runs (section 2.2.3, CMDREG).

Slice and GMET are fixed; the paper has 15 and 5 s (section 3.2). With ``slice=auto`` the
slice is that of a driver that gives all jobs the same one.

Shares, waits and the carrier of the status are not decisions of a slice policy. The paper's
are ``mode=strict``, ``--wait busy``, ``--carrier prefix`` and ``--register init``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.messages import OrderTimer
from cosched.core.node.settings import Settings
from cosched.core.node.slices.free import FreeSlices
from cosched.core.units import LENGTH_MAX_NS


class PaperSlices(FreeSlices):
    """See ``policy.SlicePolicy`` for the methods."""

    ends_apart = False
    keeps_refused = False
    newcomers_precede = False

    def __init__(self, settings: Settings) -> None:
        super().__init__(replace(settings, slice_ns=settings.fixed_slice_ns))

    def is_over(self, job: JobState, group: Group, now_ns: int) -> bool:
        """Section 2.2.3, CMDCSW: whether a job that waits has received no more CPU time."""
        received_ns = job.age_ns(now_ns)
        return any(other.age_ns(now_ns) <= received_ns for other in group.waiting)

    def order_now(self, group: Group, now_ns: int) -> list[JobState]:
        """Section 2.1: the job that has received the least CPU time is the next to run. The
        paper does not order equal jobs: one that waits comes first, then the name decides.
        """
        return sorted(
            group.jobs, key=lambda job: (job.age_ns(now_ns), job.scheduled, job.key)
        )

    def protected_until_ns(
        self, job: JobState, from_jobs: Sequence[JobState], group: Group, now_ns: int
    ) -> list[int]:
        """Section 2.2.3, CMDSCH: until the job has had GMET, whichever job asks."""
        return [job.since_ns + self.gmet_ns(group)] * len(from_jobs)

    def lead_ns(self, group: Group) -> int:
        """No limit: the timer alone prevents starvation (section 2.1)."""
        return LENGTH_MAX_NS

    def order_timer(self, contended: Iterable[Group], now_ns: int) -> OrderTimer:
        """Section 2.2.3, "Timer Daemon": sleeps for a slice, again and again."""
        return OrderTimer(not list(contended), False, self.slice_ns, 0)
