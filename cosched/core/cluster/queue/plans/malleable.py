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

In the paper a change is done at once. Here it is ordered, and done or refused later. A job
has one open change at most, and no other begins before its end. A pass plans with the nodes
that open changes will free. Starts and growths that need such nodes are promised: they are
carried out in order as the nodes come. If a change ends otherwise, or is late, the promises
are void and the plan is made again; that job keeps its size for some time.

A job above its minimum gives its nodes out of service first. A moldable job gives none:
the size with which it starts is its minimum from then on.

The bounds of a running job can change. At the next pass one above its new ideal gives its
other nodes back. Then one below its new minimum gets free nodes, or nodes by a harvest,
before any other job does.

Invariants, after every pass: the planned sizes of the running jobs, and what open changes
still hold, sum to at most the machine. Each size is between minimum and ideal, but for
jobs that got other bounds and cannot change yet. Jobs start in the order of their
submission.

With ``sizes.suspension`` a pass that leaves the first job waiting can suspend a running
one, whose nodes the first job borrows (``lending``).

Limit: a job that arrives while others wait is not considered until a job ends, even if a
protected age ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.order import FCFS, Order
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place, Spot
from cosched.core.cluster.queue.plans.lending import Lending
from cosched.core.cluster.queue.plans.planned_changes import PlannedChanges
from cosched.core.cluster.queue.plans.planner import Counts, Offers, Planner
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from cosched.core.cluster.queue.sizes.benefit import harvest_benefit, worthy_gifts
from cosched.core.cluster.queue.sizes.causes import Cause, Why
from cosched.core.cluster.queue.sizes.harvest import NEVER
from cosched.core.cluster.queue.sizes.malleable_job import MalleableJob, least_nodes
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun, Wants
from cosched.core.cluster.queue.sizes.settings import Distribution, SizePolicy
from cosched.core.cluster.queue.waiting import arrival
from cosched.core.errors import CoschedError

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


class Malleable(Planner):
    """First come first served, with sizes that change. A job that runs is offered again
    when its size changes. elastic: the place."""

    takes_rules = False

    counts: SizeCounts

    def __init__(self, place: Place, order: Order, sizes: SizePolicy) -> None:
        super().__init__(place, order)
        if not isinstance(place, Elastic) or order is not FCFS:
            raise CoschedError("sizes that change combine with fcfs on any nodes only")
        self.sizes = sizes
        self.counts = SizeCounts()
        self.running = place.running
        self.elastic = place
        self.lending = Lending(place, sizes)
        # Only promises stay after a pass.
        self._planned = PlannedChanges(place.free + place.coming)
        self._arrived = self._ended = False  # since the last pass
        self._missed: set[JobId] = set()  # could not change in the last pass
        self._again_ns: int | None = None  # the first of them can change then
        self._outside: set[JobId] = set()  # may have nodes below or above their bounds

    # --- what happened since the last pass ------------------------------------------------

    @property
    def promised(self) -> Sequence[Job]:  # type: ignore[override]
        return [run.job for run in self._planned.runs.values() if not run.held]

    def submit(self, job: Job) -> None:
        if self._planned.runs and any(arrival(job) < arrival(one) for one in self.promised):
            self.resize()
        self.waiting.add(job)
        # Behind another waiting job it cannot start.
        if self.waiting.jobs[0] is job or not self._whole:
            self._arrived = True

    def remove(self, job: Job) -> None:
        if job.number in self._planned.runs:
            self.resize()
        elif self.waiting.jobs[0] is job or not self._whole:
            self._arrived = True
        self.waiting.remove(job)

    def end(self, number: JobId, row: int, expected_ns: int, size: int) -> None:
        self._planned.free += size
        self._ended = True
        if number in self._planned.runs:
            self.resize()

    def resize(self) -> None:
        """Makes the promises void, and has the plan made again."""
        for run in self._planned.void():
            del self.running[run.job.number]
            self.waiting.add(run.job)
        self._planned.free = self.elastic.free + self.elastic.coming
        self._ended = True
        self._outside = {n for n, run in self.running.items() if not run.is_within}

    def rebound(self, job: MalleableJob) -> None:
        """Called after a job with nodes got other bounds."""
        self.running[job.number].rebound(job)
        self.resize()

    def want(self, number: JobId, wants: Wants) -> None:
        """Called after the program of a job reported what it wants."""
        run = self.running[number]
        if run.wants != wants:
            run.want(wants)
            self.resize()

    def finished(self, number: JobId, *, as_planned: bool) -> None:
        """Called after a change of a job is done."""
        if not as_planned:
            self.resize()
            return
        self.running[number].refuses = False
        if number in self._missed:
            self._ended = True

    def spare(self, number: JobId, now_ns: int) -> None:
        """Called after a job refused a change or was late with one: keeps its size for some
        time."""
        run = self.running[number]
        run.spared_ns, run.refuses = now_ns + self.sizes.control.spared_ns, True
        self.resize()

    def rest(self, number: JobId, now_ns: int) -> None:
        """Called after a job has continued: keeps its size, and its CPUs, for some time."""
        self.running[number].spared_ns = now_ns + self.sizes.control.spared_ns

    def ending(self, number: JobId) -> None:
        """Called after a job was ordered to end: its size does not change any more."""
        self.running[number].ending = True
        if number in self._planned.runs:
            self.resize()

    # --- a pass ---------------------------------------------------------------------------

    def ready(self, now_ns: int, rules: PassRules = NO_RULES) -> Offers:
        if rules:
            raise CoschedError("malleable jobs keep their order: no rules for a pass")
        if self._again_ns is not None and now_ns >= self._again_ns:
            self._ended = True
        if self._ended or self._arrived:
            self.counts.passes += 1
            self._missed.clear()
            self._again_ns = None
            if not self._whole:
                self._leave_unwanted(now_ns)
            if self._outside:
                self._meet_bounds(now_ns)
            if self._ended:
                self._share_out(now_ns)
            else:
                self._admit(now_ns)
            loans = self._start_on_loans(now_ns)
            self._suspend_for_first(now_ns)
            self._arrived = self._ended = False
            return chain(loans, self._settle(now_ns))
        return self._settle(now_ns)

    @property
    def _whole(self) -> bool:
        """Returns whether all nodes are in service, and no job is too large for them."""
        return self.elastic.takes_all

    def _steady(self, jobs: Sequence[ResizableRun], now_ns: int) -> list[ResizableRun]:
        """Returns those of the jobs whose size may change now. A pass follows when the
        others may."""
        steady = [job for job in jobs if job.is_steady(now_ns)]
        if len(steady) == len(jobs):
            return steady
        for job in jobs:
            if job.is_steady(now_ns):
                continue
            self._missed.add(job.job.number)
            if job.before is None and not job.is_in_loan and not job.ending:
                times = (job.spared_ns, self._again_ns or job.spared_ns)
                self._again_ns = min(times)
        return steady

    def _leave_unwanted(self, now_ns: int) -> None:
        """Takes from jobs above their minimum the nodes that were withdrawn."""
        for number, job in self.running.items():
            if not job.held:
                continue
            unwanted = count(self.elastic.unwanted(number))
            leaving = min(unwanted, job.size - job.minimum)
            if leaving > 0 and self._steady([job], now_ns):
                self._planned.change(job, Cause(-leaving, Why.OUT_OF_SERVICE))
                self._planned.free -= leaving  # no other job gets them
                self._missed.add(number)  # it may grow again afterwards

    def _meet_bounds(self, now_ns: int) -> None:
        """Takes from jobs above their ideal what they have too much; then gives jobs below
        their minimum what they lack, or what is free."""
        outside = [
            job
            for number, job in self.running.items()
            if number in self._outside and not job.is_within
        ]
        self._outside = {job.job.number for job in outside}
        jobs = self._steady(outside, now_ns)
        for job in jobs:
            if job.size > job.ideal:
                self._planned.change(job, Cause(job.ideal - job.size, Why.IDEAL, job.ideal))
        self._reach_minima(jobs, now_ns)

    def _reach_minima(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives those of the jobs that are below their minimum what they lack, by a harvest
        if needed, or what is free."""
        for job in jobs:
            lacks = job.minimum - job.size
            if lacks > self._planned.free:
                self._harvest(
                    lacks - self._planned.free, job.job.number, job.minimum, now_ns
                )
            if lacks > 0 and self._planned.free:
                more = min(lacks, self._planned.free)
                self._planned.change(job, Cause(more, Why.MINIMUM, job.minimum))

    def _admit(self, now_ns: int) -> None:
        """Starts jobs after an arrival."""
        self._start_fitting(now_ns)
        self._reach_degree(now_ns)

    def _share_out(self, now_ns: int) -> None:
        """Gives the nodes of a job that ended to others."""
        self._reach_degree(now_ns)
        if self.sizes.distribution is Distribution.FAVOUR_RUNNING:
            self._give(self._short(), now_ns)
            self._start_fitting(now_ns)
        else:
            self._start_fitting(now_ns)
            self._give_rest(now_ns)

    def _give_rest(self, now_ns: int) -> None:
        """Gives the nodes that the queue does not want."""
        short = self._short()
        if self.sizes.distribution is Distribution.QUEUED_ONLY:
            short = [job for job in short if job.asks]
        self._give(short, now_ns)

    def _short(self) -> list[ResizableRun]:
        """Returns the running jobs that may get more nodes, if any are free."""
        missed = self._missed
        return [
            job
            for number, job in self.running.items()
            if self._planned.free and job.size < job.ideal and number not in missed
        ]

    def _first(self) -> Job | None:
        """Returns the first waiting job. One that needs more nodes than are in service is
        passed over."""
        jobs, capacity = self.waiting.jobs, self.elastic.capacity
        if not jobs or self._whole:
            return jobs[0] if jobs else None
        return next((job for job in jobs if least_nodes(job) <= capacity), None)

    def _start_fitting(self, now_ns: int) -> None:
        """Starts jobs from the head of the queue while the free nodes suffice."""
        while (job := self._first()) is not None and least_nodes(job) <= self._planned.free:
            self._start(job, job.size, now_ns)

    def _reach_degree(self, now_ns: int) -> None:
        """Starts jobs until the degree is reached, by harvest if needed: achieve_mp(M)."""
        degree = self.elastic.total if self.sizes.degree is None else self.sizes.degree
        while len(self.running) < degree and (job := self._first()) is not None:
            least = least_nodes(job)
            missing = least - self._planned.free
            if missing > 0 and not self._harvest(missing, job.number, least, now_ns):
                break
            self._start(job, job.size, now_ns)

    def _start(self, job: Job, most: int, now_ns: int) -> None:
        """Plans the start of a job on the free nodes, ``most`` of them at most."""
        self.waiting.remove(job)
        run = ResizableRun(job, min(most, self._planned.free), now_ns)
        if not self.sizes.changes:
            run.minimum = run.size
        self.running[job.number] = run
        self._planned.start(run)
        self.counts.started_in_order += 1

    # --- suspensions ----------------------------------------------------------------------

    def _start_on_loans(self, now_ns: int) -> list[tuple[Job, Spot]]:
        """Returns the first job with its spot if a job is suspended for it."""
        offers: list[tuple[Job, Spot]] = []
        for run in self.lending.starts(self._borrower, now_ns):
            self.waiting.remove(run.job)
            self.running[run.job.number] = run
            self.counts.started_in_order += 1
            offers.append((run.job, (run, None, ())))
        return offers

    def _borrower(self) -> Job | None:
        """Returns the first waiting job, if no earlier one waits for promised nodes."""
        return None if self.promised else self._first()

    def _suspend_for_first(self, now_ns: int) -> None:
        """Orders a running job to stop if the first waiting job can borrow its nodes."""
        job = None if self.sizes.suspension is None else self._borrower()
        if job is None:
            return
        found = self.lending.candidates(job, self._planned.runs, now_ns)
        lender = next(iter(self._steady(found, now_ns)), None)
        if lender is not None:
            self.lending.suspend(lender, job)
            self.counts.suspensions += 1

    def _harvest(self, missing: int, to: JobId, least: int, now_ns: int) -> bool:
        """Removes ``missing`` nodes from running jobs, or none; returns whether it did. to:
        the job that gets them. least: its minimum."""
        taken = self._find(missing, now_ns)
        if taken is None:
            return False
        self._take(taken, to, least)
        return True

    def _slack(self) -> int:
        """Returns the number of nodes that running jobs have beyond their minimum."""
        return sum(max(0, job.size - job.minimum) for job in self.running.values())

    def _find(self, missing: int, now_ns: int) -> Taken | None:
        """Returns the running jobs that can give ``missing`` nodes; None if they cannot."""
        harvest = self.sizes.harvest
        if harvest is NEVER:
            return None
        self.counts.requests += 1
        if self._slack() < missing:
            return None
        victims = self._victims(missing, now_ns)
        amounts = harvest.take(victims, missing)
        if sum(amounts) < missing:
            return None
        least_benefit = self.sizes.control.least_benefit
        if least_benefit:
            worth = harvest_benefit(self.running.values(), victims, amounts, now_ns)
            if worth < least_benefit:
                return None
        return [pair for pair in zip(victims, amounts, strict=True) if pair[1]]

    def _take(self, taken: Taken, to: JobId, least: int) -> None:
        """Harvests running jobs for another job, whose minimum is ``least``."""
        free = self._planned.free
        for job, amount in taken:
            self._planned.change(job, Cause(-amount, Why.HARVEST, least, to, free))
        self.counts.harvests += 1

    def _victims(self, missing: int, now_ns: int) -> Sequence[ResizableRun]:
        """Returns the jobs to harvest for ``missing`` nodes. Averages cover all running
        jobs."""
        control = self.sizes.control
        limit, protected_ns = control.harvest_limit, control.protected_ns
        jobs = self.sizes.harvest.victims(list(self.running.values()), now_ns)
        if protected_ns:
            jobs = [job for job in jobs if job.age_ns(now_ns) >= protected_ns]
        if limit is not None:
            jobs = [job for job in jobs if job.harvests < limit]
        if not self._whole:
            awaits_nodes = self.elastic.awaits_nodes
            jobs = [job for job in jobs if not awaits_nodes(job.job.number)]
        if self._outside:
            jobs = [job for job in jobs if job.size >= job.minimum]
        return self._steady(jobs, now_ns)

    def _give(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives free nodes to these jobs, which have less than their ideal."""
        short = self._steady(jobs, now_ns) if self._planned.free else ()
        if not short:
            return
        first = self.sizes.harvest.receivers(short, now_ns)
        self._give_to(first, now_ns)
        if self._planned.free and len(first) < len(short):
            chosen = set(map(id, first))
            self._give_to([job for job in short if id(job) not in chosen], now_ns)

    def _give_to(self, receivers: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives free nodes to these jobs, unless a gift is not worth its cost."""
        give, least = self.sizes.harvest.give, self.sizes.control.least_benefit
        gifts = worthy_gifts(give, receivers, self._planned.free, least, now_ns)
        for job, amount in gifts:
            if amount:
                self._planned.change(job, Cause(amount, Why.GIFT))

    def _settle(self, now_ns: int) -> Offers:
        """Yields the changes of the plan: first shrink, then start, then grow. The first
        one that needs nodes which have not come stays promised, and all that follow."""
        if not self._planned.runs:
            self.wake_ns = self._next_ns()
            return
        change_ns = self.sizes.control.change_ns
        by_ns = None if change_ns is None else now_ns + change_ns
        for job in self._planned.in_order():
            if job.size - job.held > self.elastic.free:
                break
            held = job.held
            yield job.job, (job, by_ns, self._planned.carry_out(job))
            if job.size < held:
                self.counts.victims += 1
            elif held:
                self.counts.gifts += 1
        self.wake_ns = self._next_ns()

    def _next_ns(self) -> int | None:
        """Returns when the next change is late, or when a job may change again."""
        if not self.elastic.changes:
            return self._again_ns
        times = [self._again_ns] if self._again_ns is not None else []
        for number, change in self.elastic.changes.items():
            counted = not (change.given_up or self.running[number].ending)
            if change.by_ns is not None and counted:
                times.append(change.by_ns)
        return min(times, default=None)
