"""Schedules malleable jobs as a pure state machine (Figure 3 of the paper).

An arriving job gets its ideal, or the free nodes if they are at least its minimum.
Otherwise, below the degree of multiprogramming, a harvest among the running jobs provides
the missing nodes of its minimum. Otherwise it queues, first come first served. When a job
ends, jobs of the queue start until the degree is reached, by harvest if needed. The
remaining nodes go to running jobs below their ideal and to the queue, as the distribution
orders.

The scheduler decides how many nodes a job has, not which ones. Each event changes a job at
most once.

Invariants, after every event: the sizes of the running jobs sum to at most the machine.
Each size is between minimum and ideal. Every submitted job waits, runs or has ended. Jobs
start in the order of their submission.

Limit: a job that arrives while others wait is not considered until a job ends, even if a
protected age ends meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.cluster.malleable.benefit import gift_benefit, harvest_benefit
from cosched.core.cluster.malleable.harvest import NEVER
from cosched.core.cluster.malleable.messages import (
    Command,
    Event,
    JobEnded,
    JobId,
    JobSubmitted,
    MalleableJob,
    ResizeJob,
    StartJob,
)
from cosched.core.cluster.malleable.running import Running
from cosched.core.cluster.malleable.settings import Distribution, Policy
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class Counts:
    """Counts how often each branch was taken.

    requests: harvests tried. harvests: harvests that brought enough nodes. victims: changes
    that took nodes from a job. gifts: changes that gave nodes to a job.
    """

    requests: int = 0
    harvests: int = 0
    victims: int = 0
    gifts: int = 0


class MalleableScheduler:
    """The queue and the running jobs of a machine of ``nodes`` nodes."""

    def __init__(self, nodes: int, policy: Policy) -> None:
        if nodes < 1:
            raise CoschedError(f"a machine of {nodes} nodes: want 1 or more")
        self.nodes = nodes
        self.policy = policy
        self.free = nodes
        self.counts = Counts()
        self.running: dict[JobId, Running] = {}  # in the order of their starts
        self.waiting: deque[MalleableJob] = deque()
        self._waiting_numbers: set[JobId] = set()
        self._slack = 0  # nodes of running jobs above their minima
        self._changed: dict[JobId, Running] = {}  # in this event
        self._degree = nodes if policy.degree is None else policy.degree

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event and returns the commands. Events come in the order of time."""
        now_ns = event.now_ns
        if isinstance(event, JobSubmitted):
            self._submit(event.job, now_ns)
        elif isinstance(event, JobEnded):
            self._end(event.number, now_ns)
        else:
            raise TypeError(f"not an event of malleable jobs: {event!r}")
        return self._settle(now_ns) if self._changed else ()

    def _submit(self, job: MalleableJob, now_ns: int) -> None:
        self._check(job)
        self.waiting.append(job)
        self._waiting_numbers.add(job.number)
        if len(self.waiting) == 1:  # behind another waiting job it cannot start
            self._start_fitting(now_ns)
            self._reach_degree(now_ns)

    def _check(self, job: MalleableJob) -> None:
        number = job.number
        if not 1 <= job.minimum <= job.ideal <= self.nodes:
            raise CoschedError(
                f"job {number} wants {job.minimum} to {job.ideal} nodes; want at least 1, "
                f"the minimum first, and at most the machine's {self.nodes}"
            )
        if job.run_ns < 0:
            raise CoschedError(f"job {number} has a run time below 0")
        if number in self.running or number in self._waiting_numbers:
            raise CoschedError(f"job {number} was submitted before and has not ended")

    def _end(self, number: JobId, now_ns: int) -> None:
        ended = self.running.pop(number, None)
        if ended is None:
            raise CoschedError(f"job {number} ended, but it was not running")
        self.free += ended.size
        self._slack -= ended.size - ended.minimum
        self._reach_degree(now_ns)
        distribution = self.policy.distribution
        if distribution is Distribution.FAVOUR_RUNNING:
            self._give(now_ns)
            self._start_fitting(now_ns)
        else:
            self._start_fitting(now_ns)
            if distribution is Distribution.FAVOUR_QUEUED:
                self._give(now_ns)

    def _start_fitting(self, now_ns: int) -> None:
        """Starts jobs from the head of the queue while the free nodes suffice."""
        while self.waiting and self.waiting[0].minimum <= self.free:
            self._start(now_ns)

    def _reach_degree(self, now_ns: int) -> None:
        """Starts jobs until the degree is reached, by harvest if needed: achieve_mp(M)."""
        while self.waiting and len(self.running) < self._degree:
            missing = self.waiting[0].minimum - self.free
            if missing > 0 and not self._harvest(missing, now_ns):
                break
            self._start(now_ns)

    def _start(self, now_ns: int) -> None:
        job = self.waiting.popleft()
        self._waiting_numbers.remove(job.number)
        size = min(job.ideal, self.free)
        self.free -= size
        self._slack += size - job.minimum
        running = Running(job, size, now_ns)
        self.running[job.number] = running
        self._changed[job.number] = running

    def _harvest(self, missing: int, now_ns: int) -> bool:
        """Takes ``missing`` nodes from running jobs, or none; returns whether it did."""
        harvest = self.policy.harvest
        if harvest is NEVER:
            return False
        self.counts.requests += 1
        if self._slack < missing:
            return False
        victims = self._victims(now_ns)
        amounts = harvest.take(victims, missing)
        if sum(amounts) < missing:
            return False
        least = self.policy.control.least_benefit
        if least:
            worth = harvest_benefit(self.running.values(), victims, amounts, now_ns)
            if worth < least:
                return False
        for job, amount in zip(victims, amounts, strict=True):
            if amount:
                self._change(job, -amount)
        self.counts.harvests += 1
        return True

    def _victims(self, now_ns: int) -> Sequence[Running]:
        """Returns the jobs to harvest. Averages cover all running jobs."""
        control = self.policy.control
        limit, protected_ns = control.harvest_limit, control.protected_ns
        jobs = self.policy.harvest.victims(list(self.running.values()), now_ns)
        if protected_ns:
            jobs = [job for job in jobs if job.age_ns(now_ns) >= protected_ns]
        if limit is not None:
            jobs = [job for job in jobs if job.harvests < limit]
        return jobs

    def _give(self, now_ns: int) -> None:
        """Gives free nodes to running jobs below their ideal."""
        if not self.free:
            return
        short = [job for job in self.running.values() if job.size < job.ideal]
        if not short:
            return
        harvest = self.policy.harvest
        first = harvest.receivers(short, now_ns)
        self._give_to(first, now_ns)
        if self.free and len(first) < len(short):
            chosen = set(map(id, first))
            self._give_to([job for job in short if id(job) not in chosen], now_ns)

    def _give_to(self, receivers: Sequence[Running], now_ns: int) -> None:
        """Gives free nodes to these jobs.

        A job whose gift is not worth its cost gets none; the least worthy job is removed
        first, and its nodes go to the others."""
        give, least = self.policy.harvest.give, self.policy.control.least_benefit
        jobs = list(receivers)
        amounts = give(jobs, self.free)
        while least:
            worths = [
                gift_benefit(job, amount, now_ns) if amount else least
                for job, amount in zip(jobs, amounts, strict=True)
            ]
            lowest = min(worths, default=least)
            if lowest >= least:
                break
            del jobs[worths.index(lowest)]
            amounts = give(jobs, self.free)
        for job, amount in zip(jobs, amounts, strict=True):
            if amount:
                self._change(job, amount)

    def _change(self, job: Running, by: int) -> None:
        job.size += by
        self.free -= by
        self._slack += by
        self._changed[job.job.number] = job

    def _settle(self, now_ns: int) -> tuple[Command, ...]:
        """Returns the commands of the plan: first shrink, then start, then grow."""
        shrinks: list[Command] = []
        starts: list[Command] = []
        grows: list[Command] = []
        for number, job in self._changed.items():
            held, size = job.held, job.size
            if size == held:
                continue
            job.settle(now_ns)
            if not held:
                starts.append(StartJob(job.job, size, job.end_ns))
            elif size < held:
                shrinks.append(ResizeJob(number, size, job.end_ns))
            else:
                grows.append(ResizeJob(number, size, job.end_ns))
        self._changed.clear()
        self.counts.victims += len(shrinks)
        self.counts.gifts += len(grows)
        return (*shrinks, *starts, *grows)
