"""Counts the CPUs of each node that jobs have. Plans use copies.

A job has as many CPUs on each of its nodes as the fullest one has tasks. It has them alone,
or it shares them: its tasks take turns with those of other jobs that share. Jobs that share
are stacked on the CPUs that no job has alone, ``jobs`` on each at most.

A matcher counts all else that jobs need: memory, the operator's counts, licences.

This counts; the agent of a node chooses which CPUs a job has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.places.matching import Matcher, Request


class CpuJob(Job, frozen=True, kw_only=True):
    """A request for CPUs. size: those of all its nodes."""

    nodes: int  #: how many nodes
    cpus: int  #: on each of them; more than a node has: all of it
    shares: bool = False  #: other jobs that share may have the same CPUs
    needs: Request | None = None  #: its needs besides CPUs; None: none


class CpuBoard:
    """The CPUs of nodes, none at first.

    cpus: those of a node; 0: not known yet. jobs: how many jobs may share a CPU.
    free: CPUs in service that a job could have now. matcher: counts all else.
    """

    __slots__ = ("_at", "_here", "_service", "cpus", "jobs", "matcher")

    def __init__(self, cpus: int, jobs: int, matcher: Matcher[int] | None = None) -> None:
        self.cpus = cpus
        self.jobs = jobs
        self.matcher: Matcher[int] = Matcher() if matcher is None else matcher
        self._service: set[int] = set()
        self._at: dict[JobId, tuple[int, ...]] = {}  # the nodes of each job
        self._here: dict[int, tuple[CpuJob, ...]] = {}  # the jobs of each node

    def copy(self) -> CpuBoard:
        """Returns a copy of this board."""
        other = CpuBoard(self.cpus, self.jobs, self.matcher.copy())
        other._service, other._at = self._service.copy(), self._at.copy()
        other._here = self._here.copy()
        return other

    # --- for reading ----------------------------------------------------------------------

    @property
    def free(self) -> int:
        """Returns the CPUs in service that a job could have now, alone or shared."""
        return sum(map(self.room, self._service))

    @property
    def in_service(self) -> int:
        """Returns the number of nodes in service."""
        return len(self._service)

    @property
    def empty(self) -> int:
        """Returns the number of nodes in service without a job."""
        return sum(not self._here.get(node) for node in self._service)

    def jobs_on(self, node: int) -> tuple[CpuJob, ...]:
        """Returns the jobs that have CPUs of a node."""
        return self._here.get(node, ())

    def nodes_of(self, number: JobId) -> tuple[int, ...]:
        """Returns the nodes of a job."""
        return self._at[number]

    def has(self, number: JobId) -> bool:
        """Returns whether a job has CPUs."""
        return number in self._at

    def idle(self, node: int) -> int:
        """Returns the CPUs of a node that no job has."""
        alone, shared, _ = self._used(node)
        return max(0, self.cpus - alone - -(-shared // self.jobs))

    def room(self, node: int) -> int:
        """Returns the CPUs of a node that one more job that shares could have."""
        alone, shared, _ = self._used(node)
        left = self.cpus - alone
        return max(0, min(left, left * self.jobs - shared))

    def takes(self, job: CpuJob, node: int) -> bool:
        """Returns whether a node has CPUs for a job beside the jobs that are there."""
        wanted = self.wanted(job)
        if job.shares:
            return 0 < wanted <= self.room(node)
        alone, _, widest = self._used(node)
        # Each job that shares must still fit on the CPUs that are left.
        return 0 < wanted <= min(self.idle(node), self.cpus - alone - widest)

    def able(self, job: CpuJob) -> list[int]:
        """Returns the nodes in service on which a job fits now, in order."""
        nodes = self._service
        if job.needs is not None:
            nodes = nodes.intersection(self.matcher.with_room(job.needs))
        return [node for node in sorted(nodes) if self.takes(job, node)]

    def capable(self, job: CpuJob) -> int:
        """Returns on how many nodes in service a job would fit if no other job ran."""
        if job.needs is None:
            return len(self._service)
        return len(self._service.intersection(self.matcher.capable(job.needs)))

    def wanted(self, job: CpuJob) -> int:
        """Returns the CPUs of a job on each of its nodes: all of them at most."""
        return min(job.cpus, self.cpus)

    def nodes(self) -> Iterator[int]:
        """Yields the nodes in service, in order."""
        yield from sorted(self._service)

    def _used(self, node: int) -> tuple[int, int, int]:
        """Returns the CPUs of jobs that have them alone, those of jobs that share, added
        up, and those of the widest of these."""
        alone = shared = widest = 0
        for job in self._here.get(node, ()):
            wanted = self.wanted(job)
            if job.shares:
                shared += wanted
                widest = max(widest, wanted)
            else:
                alone += wanted
        return alone, shared, widest

    # --- jobs -----------------------------------------------------------------------------

    def place(self, job: CpuJob, spot: tuple[int, ...]) -> None:
        """Gives a job CPUs of these nodes. A restored job may exceed what they have."""
        self._at[job.number] = spot
        for node in spot:
            self._here[node] = (*self._here.get(node, ()), job)
        if job.needs is not None:
            known = [node for node in spot if node in self.matcher]
            self.matcher.take(job.number, known, job.needs)

    def remove(self, number: JobId) -> None:
        """Removes a job and frees its CPUs."""
        for node in self._at.pop(number):
            left = tuple(job for job in self._here[node] if job.number != number)
            self._here[node] = left
        if self.matcher.counts_job(number):
            self.matcher.release(number)

    # --- nodes ----------------------------------------------------------------------------

    def withdraw(self, nodes: Iterable[int]) -> None:
        """Removes nodes from service."""
        self._service.difference_update(nodes)

    def admit(self, nodes: Iterable[int]) -> None:
        """Puts nodes into service."""
        self._service.update(nodes)
