"""The policies once more: slow, and as near to their definitions as can be.

Time advances by one; the plan is a list of busy nodes for every moment. A job
is a tuple of submission, run time, size and walltime, and is known by its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Reference:
    """Simulates jobs on a machine; ``starts`` is the result.

    always: decide at every moment, not only when something happened.
    """

    jobs: list[tuple[int, int, int, int]]
    machine: int
    overrun: int
    always: bool = False
    now: int = 0
    queue: list[int] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)  # of running jobs
    expected: dict[int, int] = field(default_factory=dict)  # the same, as one may think
    starts: dict[int, int] = field(default_factory=dict)
    ended_early: bool = False
    late: bool = False

    def run(self) -> list[int]:
        while len(self.starts) < len(self.jobs) or self.ends:
            again = True
            while again:  # a job that takes no time ends when it starts
                happened = self.let_things_happen()
                if happened or self.always or self.is_due():
                    self.extend()
                    self.decide()
                again = any(end <= self.now for end in self.ends.values())
            self.now += 1
            assert self.now < 100_000
        return [self.starts[job] for job in range(len(self.jobs))]

    def let_things_happen(self) -> bool:
        over = [job for job, end in self.ends.items() if end <= self.now]
        self.ended_early = any(self.expected[job] > self.now for job in over)
        for job in over:
            del self.ends[job], self.expected[job]
        new = [
            job
            for job, (submit, *_) in enumerate(self.jobs)
            if submit == self.now and job not in self.starts and job not in self.queue
        ]
        self.queue += new
        return bool(over or new)

    def extend(self) -> None:
        self.late = False
        for job, end in self.expected.items():
            if end <= self.now:
                self.expected[job] = self.now + self.overrun
                self.late = True

    def is_due(self) -> bool:
        return False

    def decide(self) -> None:
        raise NotImplementedError

    def size(self, job: int) -> int:
        return self.jobs[job][2]

    def walltime(self, job: int) -> int:
        return self.jobs[job][3]

    def busy(self, at: int) -> int:
        """Nodes that are expected to be busy at a time."""
        return sum(self.size(job) for job, end in self.expected.items() if end > at)

    def fits(self, job: int) -> bool:
        return self.busy(self.now) + self.size(job) <= self.machine

    def start(self, job: int) -> None:
        self.queue.remove(job)
        self.starts[job] = self.now
        self.ends[job] = self.now + self.jobs[job][1]
        self.expected[job] = self.now + self.walltime(job)

    def ranked(self) -> list[int]:
        return list(self.queue)


class InOrderReference(Reference):
    def decide(self) -> None:
        for job in self.ranked():
            if not self.fits(job):
                break
            self.start(job)


class EasyReference(Reference):
    def decide(self) -> None:
        ranked = self.ranked()
        while ranked and self.fits(ranked[0]):
            self.start(ranked.pop(0))
        if not ranked:
            return
        head = ranked.pop(0)
        reserved = self.first_time_for(head)
        for job in ranked:
            if self.fits(job):
                # It may start if the head could still start when it was to.
                self.start(job)
                if self.first_time_for(head) > reserved:
                    del self.starts[job], self.ends[job], self.expected[job]
                    self.queue.append(job)
        self.queue.sort()  # by arrival again: jobs are numbered so

    def first_time_for(self, job: int) -> int:
        at = self.now
        while self.busy(at) + self.size(job) > self.machine:
            at += 1
        return at


class WfpReference(EasyReference):
    def ranked(self) -> list[int]:
        def score(job: int) -> float:
            submit, _, size, walltime = self.jobs[job]
            return float(((self.now - submit) / walltime) ** 3 * size)

        return sorted(self.queue, key=lambda job: (-score(job), job))


class ConservativeReference(Reference):
    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        self.planned: dict[int, int] = {}

    def is_due(self) -> bool:
        return any(start <= self.now for start in self.planned.values())

    def decide(self) -> None:
        if self.late and not self.plan_holds():
            self.planned.clear()
        elif self.ended_early:
            for job in self.ranked():
                if job in self.planned:
                    del self.planned[job]
                    self.planned[job] = self.earliest(job)
        for job in self.ranked():
            if job not in self.planned:
                self.planned[job] = self.earliest(job)
        for job in list(self.queue):
            if self.planned[job] <= self.now:
                del self.planned[job]
                self.start(job)

    def plan_holds(self) -> bool:
        """Whether what late jobs take more leaves all reservations their nodes."""
        until = self.now + self.overrun
        return all(self.planned_at(at) <= self.machine for at in range(self.now, until))

    def earliest(self, job: int) -> int:
        start = self.now
        while not all(
            self.planned_at(at) + self.size(job) <= self.machine
            for at in range(start, start + self.walltime(job))
        ):
            start += 1
        return start

    def planned_at(self, at: int) -> int:
        return self.busy(at) + sum(
            self.size(job)
            for job, start in self.planned.items()
            if start <= at < start + self.walltime(job)
        )
