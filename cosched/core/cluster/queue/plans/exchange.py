"""Plans which running jobs give nodes, and which ones get nodes.

A harvest takes nodes from running jobs for another job; a gift gives free nodes to running
jobs. The policy of sizes chooses the jobs and the numbers. A job above its preferred size
gives first, and one below it gets first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.plans.planned_changes import PlannedChanges
from cosched.core.cluster.queue.plans.planner import Counts
from cosched.core.cluster.queue.sizes.benefit import harvest_benefit, worthy_gifts
from cosched.core.cluster.queue.sizes.causes import Cause, Why
from cosched.core.cluster.queue.sizes.harvest_policies import NEVER, Deal
from cosched.core.cluster.queue.sizes.malleable_job import preferred_nodes
from cosched.core.cluster.queue.sizes.preferred import (
    give_up_to_preferred,
    take_surplus,
    take_surplus_first,
)
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.sizes.settings import SizePolicy

#: Running jobs to harvest, each with the nodes that it gives.
Taken: TypeAlias = "list[tuple[ResizableRun, int]]"


@dataclass(slots=True)
class SizeCounts(Counts):
    """Counts how often each branch was taken."""

    requests: int = 0  #: harvests tried
    harvests: int = 0  #: harvests that brought enough nodes
    victims: int = 0  #: changes that took nodes from a job
    gifts: int = 0  #: changes that gave nodes to a job
    suspensions: int = 0  #: jobs that were ordered to stop


class Exchange:
    """Moves nodes between running jobs, in the plan of one queue.

    prefers: some job may have a preferred size below its ideal. outside: the jobs that may
    have nodes below or above their bounds. missed: the jobs that could not change in the
    last pass. again_ns: when the first of them can change; None: an event shows it.
    """

    def __init__(
        self,
        elastic: Elastic,
        sizes: SizePolicy,
        planned: PlannedChanges,
        counts: SizeCounts,
    ) -> None:
        self._elastic = elastic
        self._running = elastic.running
        self._sizes = sizes
        self._planned = planned
        self._counts = counts
        self.prefers = False
        self.outside: set[JobId] = set()
        self.missed: set[JobId] = set()
        self.again_ns: int | None = None

    def begin_pass(self) -> None:
        """Forgets the jobs that could not change in the last pass."""
        self.missed.clear()
        self.again_ns = None

    def look(self) -> None:
        """Looks again for jobs outside of their bounds, or with preferred sizes."""
        self.outside = {n for n, run in self._running.items() if not run.is_within}
        if not self.prefers:
            runs = self._running.values()
            self.prefers = any(run.preferred < run.ideal for run in runs)

    def steady(self, jobs: Sequence[ResizableRun], now_ns: int) -> list[ResizableRun]:
        """Returns those of the jobs whose size may change now. A pass follows when the
        others may."""
        steady = [job for job in jobs if job.is_steady(now_ns)]
        if len(steady) == len(jobs):
            return steady
        for job in jobs:
            if job.is_steady(now_ns):
                continue
            self.missed.add(job.job.number)
            if job.before is None and not job.is_in_loan and not job.ending:
                times = (job.spared_ns, self.again_ns or job.spared_ns)
                self.again_ns = min(times)
        return steady

    # --- harvests -------------------------------------------------------------------------

    def slack(self) -> int:
        """Returns the number of nodes that running jobs have beyond their minimum."""
        return sum(max(0, job.size - job.minimum) for job in self._running.values())

    def harvest(self, missing: int, to: JobId, least: int, now_ns: int) -> bool:
        """Removes ``missing`` nodes from running jobs, or none; returns whether it did. to:
        the job that gets them. least: its minimum."""
        taken = self.find(missing, now_ns)
        if taken is None:
            return False
        self.take(taken, to, least)
        return True

    def find(self, missing: int, now_ns: int) -> Taken | None:
        """Returns the running jobs that can give ``missing`` nodes; None if they cannot."""
        harvest = self._sizes.harvest
        if harvest is NEVER:
            return None
        self._counts.requests += 1
        if self.slack() < missing:
            return None
        victims = self._victims(missing, now_ns)
        amounts = (
            take_surplus_first(harvest.take, victims, missing)
            if self.prefers
            else harvest.take(victims, missing)
        )
        if sum(amounts) < missing:
            return None
        least_benefit = self._sizes.control.least_benefit
        if least_benefit:
            worth = harvest_benefit(self._running.values(), victims, amounts, now_ns)
            if worth < least_benefit:
                return None
        return [pair for pair in zip(victims, amounts, strict=True) if pair[1]]

    def take(self, taken: Taken, to: JobId, least: int) -> None:
        """Harvests running jobs for another job, whose minimum is ``least``."""
        free = self._planned.free
        for job, amount in taken:
            self._planned.change(job, Cause(-amount, Why.HARVEST, least, to, free))
        self._counts.harvests += 1

    def take_surplus(self, job: Job, now_ns: int) -> None:
        """Takes the surplus of running jobs for a job that starts with less than it
        prefers."""
        prefers, free = preferred_nodes(job), self._planned.free
        if not self.prefers or self._sizes.harvest is NEVER or prefers <= free:
            return
        victims = [run for run in self._victims(prefers - free, now_ns) if run.surplus]
        amounts = take_surplus(victims, prefers - free)
        for run, amount in zip(victims, amounts, strict=True):
            if amount:
                cause = Cause(-amount, Why.SURPLUS, prefers, job.number, free)
                self._planned.change(run, cause)

    def _victims(self, missing: int, now_ns: int) -> Sequence[ResizableRun]:
        """Returns the jobs to harvest for ``missing`` nodes. Averages cover all running
        jobs. Jobs that refused their last change are among them only if the others have
        too little."""
        control = self._sizes.control
        limit, protected_ns = control.harvest_limit, control.protected_ns
        jobs = self._sizes.harvest.victims(list(self._running.values()), now_ns)
        if protected_ns:
            jobs = [job for job in jobs if job.age_ns(now_ns) >= protected_ns]
        if limit is not None:
            jobs = [job for job in jobs if job.harvests < limit]
        if not self._elastic.takes_all:
            awaits_nodes = self._elastic.awaits_nodes
            jobs = [job for job in jobs if not awaits_nodes(job.job.number)]
        if self.outside:
            jobs = [job for job in jobs if job.size >= job.minimum]
        jobs = self.steady(jobs, now_ns)
        willing = [job for job in jobs if not job.refuses]
        slack = sum(job.size - job.minimum for job in willing)
        return willing if slack >= missing else jobs

    # --- gifts ----------------------------------------------------------------------------

    def short(self) -> list[ResizableRun]:
        """Returns the running jobs that may get more nodes, if any are free."""
        if not self._planned.free:
            return []
        missed = self.missed
        return [
            job
            for number, job in self._running.items()
            if job.size < job.ideal and number not in missed
        ]

    def give_preferred(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives free nodes to jobs below their preferred size, up to that size."""
        short = self._receivers(jobs, now_ns)
        deal = self._sizes.harvest.give
        if self.prefers:
            short = [run for run in short if run.size < run.preferred]
            deal = partial(give_up_to_preferred, deal)
        self._give_in_turn(short, deal, now_ns)

    def give_surplus(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives free nodes to jobs at their preferred size or above, up to their ideal."""
        if self.prefers:
            short = self._receivers(jobs, now_ns)
            short = [run for run in short if run.preferred <= run.size < run.ideal]
            self._give_in_turn(short, self._sizes.harvest.give, now_ns)

    def _receivers(
        self, jobs: Sequence[ResizableRun], now_ns: int
    ) -> Sequence[ResizableRun]:
        return self.steady(jobs, now_ns) if self._planned.free else []

    def _give_in_turn(self, short: Sequence[ResizableRun], deal: Deal, now_ns: int) -> None:
        """Gives free nodes to the first choice of these jobs, then to the rest."""
        if not short or not self._planned.free:
            return
        first = self._sizes.harvest.receivers(short, now_ns)
        self._give_to(first, deal, now_ns)
        if self._planned.free and len(first) < len(short):
            chosen = set(map(id, first))
            rest = [job for job in short if id(job) not in chosen]
            self._give_to(rest, deal, now_ns)

    def _give_to(self, receivers: Sequence[ResizableRun], deal: Deal, now_ns: int) -> None:
        """Gives free nodes to these jobs, unless a gift is not worth its cost."""
        least = self._sizes.control.least_benefit
        gifts = worthy_gifts(deal, receivers, self._planned.free, least, now_ns)
        for job, amount in gifts:
            if amount:
                self._planned.change(job, Cause(amount, Why.GIFT))
