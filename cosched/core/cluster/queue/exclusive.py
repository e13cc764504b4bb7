"""Decides when jobs that tolerate no neighbour start, where nodes take several jobs.

Such a job starts once its nodes have no other job. For the first one that waits, the nodes
that are free soonest are reserved: no other job starts on them. So it starts at the latest
when the jobs that run there now have ended. Plans count these nodes as free again when it
is expected to end, so a job that needs more than the others has a reservation, too.

It is the turn of an exclusive job when no job waits that came before it and that could run
on the nodes in service. So neither kind of job starves behind the other. A job that the
rules of a pass leave out, or put last, is not waited for. One that they put first is.

Limits: reserved nodes are idle until the last of them is free. The order is that of arrival
under every policy.
"""

from __future__ import annotations

from collections.abc import Iterator

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.places.rows import Rows
from cosched.core.cluster.queue.plans.planner import Planner
from cosched.core.cluster.queue.rules import PassRules
from cosched.core.cluster.queue.waiting import WaitingList, arrival


class Exclusive:
    """The jobs that wait for nodes of their own. waiting: for reading."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.waiting = WaitingList()

    def takes(self, job: Job) -> bool:
        """Returns whether a job waits here, and not in the plan. A job with mates is in the
        plan, which can promise it nodes."""
        return job.exclusive and not job.waits_for_mates and self._rows.runs_alone(job)

    def clear(self) -> None:
        """Forgets all jobs."""
        self.waiting = WaitingList()

    def serve(
        self, planner: Planner, rules: PassRules, now_ns: int
    ) -> Iterator[tuple[Job, Intervals]]:
        """Yields the jobs that start now, with their nodes, and reserves nodes for the
        next. planner: has the other waiting jobs. rules: those of the pass."""
        waiting, rows = self.waiting, self._rows
        kept: Intervals = ()
        until_ns = 0
        while waiting:
            job = _next(waiting, planner.waiting, rules, rows.in_service)
            if job is None:
                break
            nodes, free_ns = rows.soonest_alone(job.size, now_ns)
            if free_ns is not None:
                kept, until_ns = nodes, free_ns + job.walltime_ns
                break
            rows.withhold(())
            waiting.remove(job)
            rows.occupy_alone(job, nodes, now_ns)
            planner.resize()
            yield job, nodes
        if rows.withhold(kept, until_ns):
            planner.resize()


def _next(
    waiting: WaitingList, others: WaitingList, rules: PassRules, service: int
) -> Job | None:
    """Returns the job whose turn it is; None if it is the turn of another kind."""
    first = next((job for job in waiting if job.size <= service), None)
    if first is None:
        return None
    before = others.jobs[: others.place_of(*arrival(first))]
    if rules.first:
        before += [job for job in others if job.number in rules.first]
    skipped = {*rules.left_out, *rules.last}
    able = (job for job in before if job.size <= service and job.number not in skipped)
    return first if next(able, None) is None else None
