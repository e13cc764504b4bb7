"""Plays a node whose jobs slow each other: the driver of ``core.symbiosis.watch``, in
virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cosched.core.symbiosis.speeds import Sample, Work
from cosched.core.symbiosis.watch import Read, Rest, Watch
from cosched.core.units import NS_PER_S

#: A driver's call comes so late at most.
LATE_NS = 300_000


@dataclass
class PlayedJob:
    """A job that does ``rate`` units a second alone, and less beside others."""

    rate: float
    #: Its speed alone over its speed beside the others, at a time in seconds.
    slowdown: Callable[[float], float] = lambda _: 1.0
    done: float = 0.0
    run_ns: int = 0
    slowed_ns: int = 0  #: how long it ran slower than the limit allows
    rested_ns: int = 0


@dataclass
class PlayedNode:
    """Jobs on disjoint CPUs. A job is slowed while any other one runs. away: jobs that are
    suspended."""

    watch: Watch
    jobs: dict[str, PlayedJob]
    limit: float = 1.10
    now_ns: int = 0
    wall_ns: int = 1_790_000_000 * NS_PER_S + 123_456_789
    resting: set[str] = field(default_factory=set)
    rest_until_ns: int = 0
    rests: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    away: set[str] = field(default_factory=set)

    def run(self, seconds: float) -> None:
        end_ns = self.now_ns + int(seconds * NS_PER_S)
        while self.now_ns < end_ns:
            self.watch.keep(self.jobs)
            companions = [name for name in self.jobs if name not in self.away]
            step = self.watch.step(companions, self.now_ns, self.wall_ns)
            for action in step.actions:
                match action:
                    case Rest(jobs, until_ns):
                        self.resting, self.rest_until_ns = set(jobs), until_ns
                        self.rests.append((self.now_ns, frozenset(jobs)))
                    case Read(job):
                        self.watch.read(job, self._sample(job))
            self.watch.settle(companions, self.now_ns)
            next_ns = end_ns if step.next_ns is None else step.next_ns
            self._advance(min(end_ns, max(next_ns, self.now_ns) + LATE_NS))

    def _sample(self, job: str) -> Sample:
        played = self.jobs[job]
        work = Work(marks=int(played.done), cpu_ns=played.run_ns, tasks=1)
        return Sample(self.now_ns, played.run_ns, work)

    def _advance(self, to_ns: int) -> None:
        passed_ns = to_ns - self.now_ns
        second = self.now_ns / NS_PER_S
        running = self.jobs.keys() - self.resting - self.away
        for name, job in self.jobs.items():
            if name in self.away:
                continue
            if name in self.resting:
                job.rested_ns += passed_ns
                continue
            slowdown = job.slowdown(second) if len(running) > 1 else 1.0
            job.done += job.rate * passed_ns / NS_PER_S / slowdown
            job.run_ns += passed_ns
            job.slowed_ns += passed_ns if slowdown > self.limit else 0
        assert not self.resting or to_ns <= self.rest_until_ns + LATE_NS
        self.now_ns, self.wall_ns = to_ns, self.wall_ns + passed_ns
