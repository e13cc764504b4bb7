"""Plans malleable jobs: running jobs give up nodes so that other jobs start (Figure 3).

Weissman, Rao Abburi and England, *Integrated Scheduling: The Best of Both Worlds* (2003).

An arriving job gets its ideal, or the free nodes if they are at least its minimum.
Otherwise, below the degree of multiprogramming, a harvest among the running jobs provides
the missing nodes of its minimum. Otherwise it queues, first come first served. When a job
ends, jobs of the queue start until the degree is reached, by harvest if needed. The
remaining nodes go to running jobs below their ideal and to the queue, as the distribution
orders.

In the paper a decision follows each arrival and each end; a driver that ticks after each
gets the same. A pass changes a job at most once.

Invariants, after every pass: the sizes of the running jobs sum to at most the machine.
Each size is between minimum and ideal. Jobs start in the order of their submission.

Limit: a job that arrives while others wait is not considered until a job ends, even if a
protected age ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.order import FCFS, Order
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place
from cosched.core.cluster.queue.plans.planner import Offers, Planner
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from cosched.core.cluster.queue.sizes.benefit import gift_benefit, harvest_benefit
from cosched.core.cluster.queue.sizes.harvest import NEVER
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.cluster.queue.sizes.settings import Distribution, SizePolicy
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class SizeCounts:
    """Counts how often each branch was taken."""

    requests: int = 0  #: harvests tried
    harvests: int = 0  #: harvests that brought enough nodes
    victims: int = 0  #: changes that took nodes from a job
    gifts: int = 0  #: changes that gave nodes to a job


class Malleable(Planner):
    """First come first served, with sizes that change. A job that runs is offered again
    when its size changes."""

    takes_rules = False

    def __init__(self, place: Place, order: Order, sizes: SizePolicy) -> None:
        super().__init__(place, order)
        if not isinstance(place, Elastic) or order is not FCFS:
            raise CoschedError("sizes that change combine with fcfs on any nodes only")
        self.sizes = sizes
        self.size_counts = SizeCounts()
        self.running: dict[JobId, ResizableRun] = {}  # in the order of their starts
        self._free = place.free  # by the plan
        self._slack = 0  # nodes of running jobs above their minima
        self._changed: dict[JobId, ResizableRun] = {}  # in this pass
        self._degree = place.total if sizes.degree is None else sizes.degree
        self._arrived = self._ended = False  # since the last pass

    def submit(self, job: Job) -> None:
        super().submit(job)
        if len(self.waiting) == 1:  # behind another waiting job it cannot start
            self._arrived = True

    def end(self, number: JobId, row: int, expected_ns: int, size: int) -> None:
        ended = self.running.pop(number)
        self._free += size
        self._slack -= size - ended.minimum
        self._ended = True

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        if rules:
            raise CoschedError("malleable jobs keep their order: no rules for a pass")
        self.counts.passes += 1
        if self._ended:
            self._share_out(now_ns)
        elif self._arrived:
            self._start_fitting(now_ns)
            self._reach_degree(now_ns)
        self._arrived = self._ended = False
        return self._settle(now_ns)

    def _share_out(self, now_ns: int) -> None:
        """Gives the nodes of a job that ended to others."""
        self._reach_degree(now_ns)
        distribution = self.sizes.distribution
        if distribution is Distribution.FAVOUR_RUNNING:
            self._give(now_ns)
            self._start_fitting(now_ns)
        else:
            self._start_fitting(now_ns)
            if distribution is Distribution.FAVOUR_QUEUED:
                self._give(now_ns)

    @property
    def _minimum(self) -> int:
        """Returns the least nodes of the first waiting job."""
        job = self.waiting.jobs[0]
        assert isinstance(job, MalleableJob)
        return job.minimum

    def _start_fitting(self, now_ns: int) -> None:
        """Starts jobs from the head of the queue while the free nodes suffice."""
        while self.waiting and self._minimum <= self._free:
            self._start(now_ns)

    def _reach_degree(self, now_ns: int) -> None:
        """Starts jobs until the degree is reached, by harvest if needed: achieve_mp(M)."""
        while self.waiting and len(self.running) < self._degree:
            missing = self._minimum - self._free
            if missing > 0 and not self._harvest(missing, now_ns):
                break
            self._start(now_ns)

    def _start(self, now_ns: int) -> None:
        job = self.waiting.jobs[0]
        assert isinstance(job, MalleableJob)
        self.waiting.remove(job)
        size = min(job.size, self._free)
        self._free -= size
        self._slack += size - job.minimum
        running = ResizableRun(job, size, now_ns)
        self.running[job.number] = running
        self._changed[job.number] = running
        self.counts.started_in_order += 1

    def _harvest(self, missing: int, now_ns: int) -> bool:
        """Removes ``missing`` nodes from running jobs, or none; returns whether it did."""
        harvest = self.sizes.harvest
        if harvest is NEVER:
            return False
        self.size_counts.requests += 1
        if self._slack < missing:
            return False
        victims = self._victims(now_ns)
        amounts = harvest.take(victims, missing)
        if sum(amounts) < missing:
            return False
        least = self.sizes.control.least_benefit
        if least:
            worth = harvest_benefit(self.running.values(), victims, amounts, now_ns)
            if worth < least:
                return False
        for job, amount in zip(victims, amounts, strict=True):
            if amount:
                self._change(job, -amount)
        self.size_counts.harvests += 1
        return True

    def _victims(self, now_ns: int) -> Sequence[ResizableRun]:
        """Returns the jobs to harvest. Averages cover all running jobs."""
        control = self.sizes.control
        limit, protected_ns = control.harvest_limit, control.protected_ns
        jobs = self.sizes.harvest.victims(list(self.running.values()), now_ns)
        if protected_ns:
            jobs = [job for job in jobs if job.age_ns(now_ns) >= protected_ns]
        if limit is not None:
            jobs = [job for job in jobs if job.harvests < limit]
        return jobs

    def _give(self, now_ns: int) -> None:
        """Gives free nodes to running jobs below their ideal."""
        if not self._free:
            return
        short = [job for job in self.running.values() if job.size < job.ideal]
        if not short:
            return
        first = self.sizes.harvest.receivers(short, now_ns)
        self._give_to(first, now_ns)
        if self._free and len(first) < len(short):
            chosen = set(map(id, first))
            self._give_to([job for job in short if id(job) not in chosen], now_ns)

    def _give_to(self, receivers: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives free nodes to these jobs.

        A job whose gift is not worth its cost gets none; the least worthy job is removed
        first, and its nodes go to the others."""
        give, least = self.sizes.harvest.give, self.sizes.control.least_benefit
        jobs = list(receivers)
        amounts = give(jobs, self._free)
        while least:
            worths = [
                gift_benefit(job, amount, now_ns) if amount else least
                for job, amount in zip(jobs, amounts, strict=True)
            ]
            lowest = min(worths, default=least)
            if lowest >= least:
                break
            del jobs[worths.index(lowest)]
            amounts = give(jobs, self._free)
        for job, amount in zip(jobs, amounts, strict=True):
            if amount:
                self._change(job, amount)

    def _change(self, job: ResizableRun, by: int) -> None:
        job.size += by
        self._free -= by
        self._slack += by
        self._changed[job.job.number] = job

    def _settle(self, now_ns: int) -> Offers:
        """Yields the changes of the plan: first shrink, then start, then grow."""
        shrinks: list[ResizableRun] = []
        starts: list[ResizableRun] = []
        grows: list[ResizableRun] = []
        for job in self._changed.values():
            held, size = job.held, job.size
            if size == held:
                continue
            job.settle(now_ns)
            (shrinks if size < held else grows if held else starts).append(job)
        self._changed.clear()
        self.size_counts.victims += len(shrinks)
        self.size_counts.gifts += len(grows)
        for job in (*shrinks, *starts, *grows):
            yield job.job, (job.size, job.end_ns)
