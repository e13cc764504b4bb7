"""Orders jobs by what is left of them: the job that probably ends soonest runs first.

Each job has a cost (``knowledge``), which is the rest of the job as far as that is known.
The job with the least cost has the CPUs. A newcomer with a lower cost takes them at once,
after GMET, not when a turn ends. A job near its end has a low cost, so it is not cut.

A job that mostly waits for messages counts with a part of its cost. It comes before a job
that computes, and the other one computes in its waits (``cpu_need``).

The running job keeps its CPUs from a job whose cost is only a little lower
(``HOLD_PERCENT``), and equal jobs go by submission. So nodes whose accounts differ a little
choose alike. Costs change while jobs run, so the order is checked at each slice.

Unknown jobs of one kind probably run equally long. They have the cost of the one that has
run longest, and so they run one after the other.

Messages correct nodes that differ. A message pulls in the job that comes before the running
one after GMET. It pulls in another job too, but later: that job runs on another node, and
may be first there. Of two such jobs the one that was submitted first waits less, so the
nodes do not pull against each other without end.

In any order each job gets its guaranteed part of the time (``guarantee``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from cosched.core.node.cpu_need import weighted_ns
from cosched.core.node.groups import Group
from cosched.core.node.guarantee import due_job
from cosched.core.node.job import JobState
from cosched.core.node.knowledge import Estimate, Knowledge, doubled_ns, estimate
from cosched.core.node.messages import Job, OrderTimer
from cosched.core.node.prospect import Prospect, Reason
from cosched.core.node.settings import Settings
from cosched.core.node.slices.free import FreeSlices
from cosched.core.units import LENGTH_MAX_NS

#: A job is first sorted by its rank.
ENDING, DUE, USUAL = range(3)
#: The running job's cost counts as this percentage of itself.
HOLD_PERCENT = 80
#: The running job is protected from a later job in the order for so many times GMET: less
#: if the asking job was submitted first.
PATIENCE_FIRST = 4
PATIENCE = 16
#: The running job is about to end if its cost is at most this part of a slice.
ENDING_PART = 2


class _Position(NamedTuple):
    """A place in the order: a key to sort by, as far as the job's ``number``, which is its
    own; and the facts behind it."""

    rank: int
    held_cost_ns: int
    waits: bool
    number: int
    age_ns: int
    lengths_ns: Sequence[int]
    estimate: Estimate

    def prospect(self, place: int) -> Prospect:
        """Returns the facts and the reason for people."""
        return Prospect(
            place,
            self._reason(),
            cost_ns=self.estimate.cost_ns,
            age_ns=self.age_ns,
            expected_ns=sum(self.lengths_ns) // max(1, len(self.lengths_ns)),
            left_ns=self.estimate.left_ns,
            lengths=len(self.lengths_ns),
        )

    def _reason(self) -> Reason:
        if self.rank != USUAL:
            return Reason.ENDING if self.rank == ENDING else Reason.DUE
        if not self.lengths_ns:
            return Reason.UNKNOWN
        return Reason.LEFT if self.estimate.left_ns else Reason.OUTLIVED


class RestSlices(FreeSlices):
    """See ``policy.SlicePolicy`` for the methods."""

    ends_apart = False
    first_takes_over = True

    def __init__(self, settings: Settings, knowledge: Knowledge) -> None:
        super().__init__(settings)
        self._knowledge = knowledge

    def order_now(self, group: Group, now_ns: int) -> list[JobState]:
        places = self._places(group, now_ns)
        return sorted(group.jobs, key=lambda job: places[job.key])

    def _places(self, group: Group, now_ns: int) -> dict[Job, _Position]:
        """Returns a key for each job by which the group is sorted: first a job that is
        about to end, then the job that is due, then all others."""
        due = due_job(group, self._settings, now_ns)
        kinds = any(job.expectation.kind for job in group.jobs)
        oldest_ns = _oldest_ns(group, now_ns) if kinds else {}
        needs = _least_needs(group) if kinds else {}
        places: dict[Job, _Position] = {}
        for number, job in enumerate(group.jobs):  # by precedence
            lengths_ns = self._knowledge.lengths_of(job.expectation, job.user)
            age_ns = job.age_ns(now_ns)
            if job.expectation.kind and not lengths_ns:
                age_ns = oldest_ns[job.likeness]
            found = estimate(age_ns, lengths_ns, self.slice_ns)
            need = needs[job.likeness] if job.expectation.kind else job.need
            cost_ns = weighted_ns(found.cost_ns, need)
            if job.starting:
                cost_ns = max(cost_ns, self._bare_cost_ns(job, age_ns))
            if job.scheduled:
                cost_ns = cost_ns * HOLD_PERCENT // 100
            near_its_end = job.ending or cost_ns * ENDING_PART <= self.slice_ns
            if job.scheduled and near_its_end:
                rank = ENDING
            else:
                rank = DUE if job is due else USUAL
            places[job.key] = _Position(
                rank, cost_ns, not job.scheduled, number, age_ns, lengths_ns, found
            )
        return places

    def _bare_cost_ns(self, job: JobState, age_ns: int) -> int:
        """Returns the least cost of a starting job after starts of its user without a task:
        they count as one unknown job. Returns 0 if there were none."""
        bare_ns = self._knowledge.bare_starts_ns.get(job.user, 0)
        return doubled_ns(bare_ns + age_ns, self.slice_ns) if bare_ns else 0

    def protected_until_ns(
        self, job: JobState, from_jobs: Sequence[JobState], group: Group, now_ns: int
    ) -> list[int]:
        """Returns the end of GMET if the asking job comes first in the order; otherwise the
        end of ``PATIENCE`` times GMET."""
        gmet_ns = self.gmet_ns(group)
        places = self._places(group, max(now_ns, job.since_ns + gmet_ns))

        def patience(other: JobState) -> int:
            if places[other.key] < places[job.key]:
                return 1
            return PATIENCE_FIRST if other.precedence < job.precedence else PATIENCE

        return [job.since_ns + patience(other) * gmet_ns for other in from_jobs]

    def prospects(self, group: Group, now_ns: int) -> Mapping[Job, Prospect]:
        places = self._places(group, now_ns)
        order = sorted(places, key=places.__getitem__)
        return {key: places[key].prospect(number) for number, key in enumerate(order)}

    def lead_ns(self, group: Group) -> int:
        """No limit: the order does not go by the CPU time that a job has had."""
        return LENGTH_MAX_NS

    def order_timer(self, contended: Iterable[Group], now_ns: int) -> OrderTimer:
        """Orders CMDCSW for the end of a GMET for which the first job waits, and otherwise
        for the end of the slice."""
        groups = list(contended)
        ends_ns = [
            job.since_ns + self.gmet_ns(group)
            for group in groups
            for job in group.scheduled
            if job.ran_ns(now_ns) < self.gmet_ns(group)
            and not self.order_now(group, now_ns)[0].scheduled
        ]
        if not ends_ns and not self._settings.align and groups:
            ends_ns = [(now_ns // self.slice_ns + 1) * self.slice_ns]
        if ends_ns:
            return OrderTimer(False, False, self.slice_ns, min(ends_ns))
        return OrderTimer(not groups, self._settings.align, self.slice_ns, 0)


def _oldest_ns(group: Group, now_ns: int) -> dict[tuple[int, int], int]:
    """Returns the greatest age of like jobs."""
    oldest_ns: dict[tuple[int, int], int] = {}
    for job in group.jobs:
        oldest_ns[job.likeness] = max(oldest_ns.get(job.likeness, 0), job.age_ns(now_ns))
    return oldest_ns


def _least_needs(group: Group) -> dict[tuple[int, int], int]:
    """Returns the least known need of like jobs; 0 if none is known. So a job that begins
    with much work keeps its place before like jobs that have not begun."""
    needs: dict[tuple[int, int], int] = {}
    for job in group.jobs:
        known = [need for need in (needs.get(job.likeness, 0), job.need) if need]
        needs[job.likeness] = min(known, default=0)
    return needs
