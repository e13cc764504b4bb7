"""Keeps the jobs that want their nodes alone, where nodes take several jobs.

Such a job starts once its nodes have no other job. For the first one that waits, the nodes
that are free soonest are reserved: no other job starts on them. So it starts at the latest
when the jobs that run there now have ended.

It is the turn of an exclusive job when no job waits that came before it and that could run
on the nodes in service. So neither kind of job starves behind the other.

Limits: reserved nodes are idle until the last of them is free. The order is that of arrival
under every policy.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Mapping, Sequence

from cosched.core.cluster.queue.domain import Command, EndJob
from cosched.core.cluster.queue.messages import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals, count, from_numbers
from cosched.core.cluster.queue.planner import arrival


class ExclusiveJobs:
    """The exclusive jobs of a domain.

    waiting: by arrival. running: by number. ending: jobs that were ordered to end.
    """

    def __init__(self) -> None:
        self.waiting: list[Job] = []
        self.running: dict[JobId, Job] = {}
        self.ending: set[JobId] = set()

    def __contains__(self, number: JobId) -> bool:
        return number in self.running or self.find(number) is not None

    def find(self, number: JobId) -> Job | None:
        """Returns a waiting job; None if no such job waits."""
        return next((job for job in self.waiting if job.number == number), None)

    def add(self, job: Job) -> None:
        """Lets a job wait."""
        insort(self.waiting, job, key=arrival)

    def start(self, job: Job) -> None:
        """Notes that a waiting job runs."""
        self.waiting.remove(job)
        self.running[job.number] = job

    def end(self, number: JobId) -> Job:
        """Notes that a job does not run any more; returns it."""
        self.ending.discard(number)
        return self.running.pop(number)

    def once(self, commands: Iterable[Command]) -> tuple[Command, ...]:
        """Drops repeated orders to end: all rows have the exclusive jobs."""
        kept = []
        for command in commands:
            if isinstance(command, EndJob) and command.number in self.running:
                if command.number in self.ending:
                    continue
                self.ending.add(command.number)
            kept.append(command)
        return tuple(kept)

    def next(self, others: Sequence[Job], service: int) -> Job | None:
        """Returns the job whose turn it is; None if it is the turn of another kind.

        others: the waiting jobs that are not exclusive. service: nodes in service.
        """
        first = next((job for job in self.waiting if job.size <= service), None)
        if first is None:
            return None
        before = (other for other in others if other.size <= service)
        if any(arrival(other) < arrival(first) for other in before):
            return None
        return first


def soonest_free(
    size: int, service: Intervals, ends: Mapping[int, int]
) -> tuple[Intervals, bool]:
    """Returns the nodes that are free soonest, and whether all of them are free.

    ends: when each node that has jobs is expected to be free. service: at least ``size``
    nodes.
    """
    nodes = [number for first, last in service for number in range(first, last + 1)]
    assert size <= count(service)
    nodes.sort(key=lambda node: (node in ends, ends.get(node, 0), node))
    chosen = nodes[:size]
    return from_numbers(chosen), chosen[-1] not in ends
