"""Keeps jobs out of the queue until others have ended.

A *batch* is the tasks of an array, or one job. Its jobs are kept back while a job has not
ended for which the batch waits. After that they enter the queue by number, but at most
``at_once`` of them are in the queue or have nodes at a time. So a plan never sees the other
tasks of an array, and a pass costs no more for them.

A job that was kept back gets its place in the queue when it enters: behind all jobs that
wait then. So it delays no job that has a reservation.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from msgspec import Struct

from cosched.core.cluster.queue.job import JobId


class Terms(Struct, frozen=True):
    """The terms on which a job enters the queue. All jobs of a batch have the same, but
    for ``let_in``."""

    batch: JobId  #: names the batch
    at_once: int = 0  #: the most of its jobs in the queue or with nodes; 0: any number
    after: frozenset[JobId] = frozenset()  #: jobs that have not ended, and must end before
    after_ok: frozenset[JobId] = frozenset()  #: jobs that must end well before
    let_in: bool = False  #: this job was let into the queue before, and keeps its place


class _Batch:
    """The jobs of a batch that are not gone."""

    __slots__ = ("after", "after_ok", "at_once", "inside", "kept", "order")

    def __init__(self, terms: Terms) -> None:
        self.at_once = terms.at_once
        self.after = set(terms.after - terms.after_ok)  # must end
        self.after_ok = set(terms.after_ok)  # must end well
        self.kept: set[JobId] = set()
        self.order: list[JobId] = []  # a heap of the kept jobs, also of some that are not
        self.inside: set[JobId] = set()  # in the queue, or with nodes

    @property
    def needed(self) -> set[JobId]:
        """Returns the jobs for which it waits."""
        return self.after | self.after_ok

    def keep(self, number: JobId) -> None:
        """Adds a job that is kept back."""
        self.kept.add(number)
        heappush(self.order, number)

    def take(self) -> JobId | None:
        """Removes the first kept job that may enter now; None if there is none."""
        is_full = self.at_once and len(self.inside) >= self.at_once
        if self.after or self.after_ok or is_full:
            return None
        while self.order:
            number = heappop(self.order)
            if number in self.kept:
                self.kept.discard(number)
                self.inside.add(number)
                return number
        return None

    def tidy(self) -> None:
        """Forgets removed jobs in the heap once they are most of it."""
        if len(self.order) > 2 * len(self.kept) + 16:
            self.order = list(self.kept)
            heapify(self.order)


class Batches:
    """The batches of a queue, as long as they have jobs."""

    def __init__(self) -> None:
        self._batches: dict[JobId, _Batch] = {}
        self._of: dict[JobId, JobId] = {}  # the batch of each of their jobs
        self._waits: dict[JobId, set[JobId]] = {}  # the batches that wait for a job
        self._changed: set[JobId] = set()  # batches of which some job may enter

    def __bool__(self) -> bool:
        return bool(self._batches)

    def has(self, batch: JobId) -> bool:
        """Returns whether some job of a batch is kept back, waits or has nodes."""
        return batch in self._batches

    def awaits(self, number: JobId) -> bool:
        """Returns whether a batch waits for the end of this job."""
        return number in self._waits

    def needed_by(self, number: JobId) -> tuple[int, int]:
        """Returns the number of jobs that must end before a kept one enters the queue, and
        of those that must end well."""
        batch = self._batches[self._of[number]]
        return len(batch.after), len(batch.after_ok)

    @property
    def kept(self) -> list[JobId]:
        """Returns the jobs that are kept back, by number."""
        return sorted(job for batch in self._batches.values() for job in batch.kept)

    def add(self, number: JobId, terms: Terms) -> None:
        """Adds a job, kept back unless it was let in before. The first job of a batch names
        the jobs for which the batch waits."""
        batch = self._batches.get(terms.batch)
        if batch is None:
            batch = self._batches[terms.batch] = _Batch(terms)
            for each in batch.needed:
                self._waits.setdefault(each, set()).add(terms.batch)
        self._of[number] = terms.batch
        if terms.let_in:
            batch.inside.add(number)
        else:
            batch.keep(number)
            self._changed.add(terms.batch)

    def remove(self, number: JobId) -> None:
        """Forgets a job that is not in the queue any more, if it is one of a batch."""
        name = self._of.pop(number, None)
        if name is None:
            return
        batch = self._batches[name]
        batch.inside.discard(number)
        batch.kept.discard(number)
        batch.tidy()
        if batch.kept:
            self._changed.add(name)
        elif not batch.inside:
            self._forget(name, batch)

    def over(self, number: JobId, *, ok: bool) -> list[JobId]:
        """Takes note of the end of a job, good or not. Returns the kept jobs that can never
        enter the queue because of it, by number; they are forgotten."""
        never: list[JobId] = []
        for name in sorted(self._waits.pop(number, ())):
            batch = self._batches[name]
            if number in batch.after_ok and not ok:
                never += batch.kept
            else:
                self._changed.add(name)
            batch.after.discard(number)
            batch.after_ok.discard(number)
        never.sort()
        for each in never:
            self.remove(each)
        return never

    def due(self) -> list[JobId]:
        """Returns the kept jobs that enter the queue now, by batch and number."""
        found: list[JobId] = []
        for name in sorted(self._changed):
            batch = self._batches.get(name)
            while batch is not None and (number := batch.take()) is not None:
                found.append(number)
        self._changed.clear()
        return found

    def _forget(self, name: JobId, batch: _Batch) -> None:
        del self._batches[name]
        self._changed.discard(name)
        for each in batch.needed:
            self._waits[each].discard(name)
            if not self._waits[each]:
                del self._waits[each]
