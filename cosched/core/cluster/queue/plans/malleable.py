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

A job may have a preferred size below its ideal. It starts with more, and grows beyond it,
only while no job waits. A harvest takes what jobs have beyond their preferred sizes first.
A job that starts with fewer nodes than it prefers gets such nodes, too.

With ``sizes.suspension`` a pass that leaves the first job waiting can suspend a running
one, whose nodes the first job borrows (``lending``).

Limit: a job that arrives while others wait is not considered until a job ends, even if a
protected age ends meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.order import FCFS, Order
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.places.place import Place, Spot
from cosched.core.cluster.queue.plans.exchange import Exchange, SizeCounts
from cosched.core.cluster.queue.plans.lending import Lending
from cosched.core.cluster.queue.plans.planned_changes import PlannedChanges
from cosched.core.cluster.queue.plans.planner import Offers, Planner
from cosched.core.cluster.queue.rules import NO_RULES, PassRules
from cosched.core.cluster.queue.sizes.causes import Cause, Why
from cosched.core.cluster.queue.sizes.malleable_job import (
    MalleableJob,
    least_nodes,
    preferred_nodes,
)
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun, Wants
from cosched.core.cluster.queue.sizes.settings import Distribution, SizePolicy
from cosched.core.cluster.queue.waiting import arrival
from cosched.core.errors import CoschedError


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
        self.exchange = Exchange(place, sizes, self._planned, self.counts)

    # --- what happened since the last pass ------------------------------------------------

    @property
    def promised(self) -> Sequence[Job]:  # type: ignore[override]
        return [run.job for run in self._planned.runs.values() if not run.held]

    def submit(self, job: Job) -> None:
        if self._planned.runs and any(arrival(job) < arrival(one) for one in self.promised):
            self.resize()
        self.waiting.add(job)
        self.exchange.prefers |= preferred_nodes(job) < job.size
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
        self.exchange.look()

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
        if number in self.exchange.missed:
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
        if self.exchange.again_ns is not None and now_ns >= self.exchange.again_ns:
            self._ended = True
        if self._ended or self._arrived:
            self.counts.passes += 1
            self.exchange.begin_pass()
            if not self._whole:
                self._leave_unwanted(now_ns)
            if self.exchange.outside:
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

    def _leave_unwanted(self, now_ns: int) -> None:
        """Takes from jobs above their minimum the nodes that were withdrawn."""
        for number, job in self.running.items():
            if not job.held:
                continue
            unwanted = count(self.elastic.unwanted(number))
            leaving = min(unwanted, job.size - job.minimum)
            if leaving > 0 and self.exchange.steady([job], now_ns):
                self._planned.change(job, Cause(-leaving, Why.OUT_OF_SERVICE))
                self._planned.free -= leaving  # no other job gets them
                self.exchange.missed.add(number)  # it may grow again afterwards

    def _meet_bounds(self, now_ns: int) -> None:
        """Takes from jobs above their ideal what they have too much; then gives jobs below
        their minimum what they lack, or what is free."""
        outside = [
            job
            for number, job in self.running.items()
            if number in self.exchange.outside and not job.is_within
        ]
        self.exchange.outside = {job.job.number for job in outside}
        jobs = self.exchange.steady(outside, now_ns)
        for job in jobs:
            if job.size > job.ideal:
                before, number = job.size, job.job.number
                self._planned.change(job, Cause(job.ideal - before, Why.IDEAL, job.ideal))
                self._planned.free -= self.elastic.leaving_out(number, before)
        self._reach_minima(jobs, now_ns)

    def _reach_minima(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives those of the jobs that are below their minimum what they lack, by a harvest
        if needed, or what is free."""
        for job in jobs:
            lacks = job.minimum - job.size
            if lacks > self._planned.free:
                self.exchange.harvest(
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
            self._give(self.exchange.short(), now_ns)
            self._start_fitting(now_ns)
        else:
            self._start_fitting(now_ns)
            self._give_rest(now_ns)

    def _give_rest(self, now_ns: int) -> None:
        """Gives the nodes that the queue does not want."""
        short = self.exchange.short()
        if self.sizes.distribution is Distribution.QUEUED_ONLY:
            short = [job for job in short if job.asks]
        self._give(short, now_ns)

    def _first(self) -> Job | None:
        """Returns the first waiting job. One that needs more nodes than are in service is
        passed over."""
        jobs = self.waiting.jobs
        if self._whole:
            return jobs[0] if jobs else None
        return next(filter(self.elastic.fits_alone, jobs), None)

    def _start_fitting(self, now_ns: int) -> None:
        """Starts jobs from the head of the queue while the free nodes suffice."""
        while (job := self._first()) is not None and least_nodes(job) <= self._planned.free:
            self.exchange.take_surplus(job, now_ns)
            self._start(job, job.size, now_ns)

    def _reach_degree(self, now_ns: int) -> None:
        """Starts jobs until the degree is reached, by harvest if needed: achieve_mp(M)."""
        degree = self.elastic.total if self.sizes.degree is None else self.sizes.degree
        while len(self.running) < degree and (job := self._first()) is not None:
            least = least_nodes(job)
            lacks = least - self._planned.free
            if lacks > 0 and not self.exchange.harvest(lacks, job.number, least, now_ns):
                break
            self.exchange.take_surplus(job, now_ns)
            self._start(job, job.size, now_ns)

    def _start(self, job: Job, most: int, now_ns: int) -> None:
        """Plans the start of a job on the free nodes, ``most`` of them at most. If others
        wait, it gets no more than it prefers."""
        self.waiting.remove(job)
        if self._first() is not None:
            most = min(most, preferred_nodes(job))
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
        lender = next(iter(self.exchange.steady(found, now_ns)), None)
        if lender is not None:
            self.lending.suspend(lender, job)
            self.counts.suspensions += 1

    def _give(self, jobs: Sequence[ResizableRun], now_ns: int) -> None:
        """Gives free nodes to these jobs, which have less than their ideal; while others
        wait, no more than they prefer."""
        self.exchange.give_preferred(jobs, now_ns)
        if self._first() is None:
            self.exchange.give_surplus(jobs, now_ns)

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
        times = list(self.elastic.changes.due().values())
        if self.exchange.again_ns is not None:
            times.append(self.exchange.again_ns)
        return min(times, default=None)
