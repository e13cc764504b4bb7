"""Chooses the running jobs that are suspended so that a waiting one borrows their nodes.

A lender is suspended first. The borrower starts on its nodes once the suspension is
confirmed. If another job is the first one by then, or this one needs these nodes no more,
the lender continues.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import count
from cosched.core.cluster.queue.places.elastic import Elastic
from cosched.core.cluster.queue.sizes.malleable_job import least_nodes
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun, Stop
from cosched.core.cluster.queue.sizes.settings import SizePolicy


class Lending:
    """The loans of a plan. elastic: the place. to_suspend, to_continue: the jobs to which a
    pass orders that."""

    def __init__(self, elastic: Elastic, sizes: SizePolicy) -> None:
        self.to_suspend: list[JobId] = []
        self.to_continue: list[JobId] = []
        self._elastic = elastic
        self._sizes = sizes

    def starts(
        self, first: Callable[[], Job | None], now_ns: int
    ) -> Iterator[ResizableRun]:
        """Yields the runs that start now on borrowed nodes. Other lenders of which no job
        has borrowed are to continue. first: returns the job whose turn it is."""
        elastic = self._elastic
        for number, lender in list(elastic.running.items()):
            stop = lender.stop
            if stop is None or stop.since_ns is None or stop.continues or lender.ending:
                continue
            if elastic.borrower(number) is not None:
                continue
            job, nodes = first(), count(elastic.lendable(number))
            if job is None or job.number != stop.for_job or least_nodes(job) > nodes:
                stop.continues = True
                self.to_continue.append(number)
                continue
            run = ResizableRun(job, min(job.size, nodes), now_ns)
            run.borrow(number)
            yield run

    def candidates(
        self, job: Job, changing: Container[JobId], now_ns: int
    ) -> list[ResizableRun]:
        """Returns the running jobs of which a waiting one may borrow, the best first; none
        if a job is suspended for it. changing: jobs whose size is planned to change."""
        suspension, degree = self._sizes.suspension, self._sizes.degree
        elastic, running = self._elastic, self._elastic.running
        if suspension is None or (degree is not None and len(running) >= degree):
            return []
        stops = [run.stop for run in running.values() if run.stop is not None]
        if any(stop.for_job == job.number for stop in stops):
            return []
        own = [
            (run, count(elastic.lendable(number)))
            for number, run in running.items()
            if number not in changing and run.lender is None
        ]
        age_ns = self._sizes.control.protected_ns
        return suspension.candidates(own, job, age_ns, now_ns)

    def suspend(self, lender: ResizableRun, job: Job) -> None:
        """Orders a running job to stop for a waiting one."""
        number = lender.job.number
        self._elastic.suspend(number, Stop(job.number))
        self.to_suspend.append(number)
