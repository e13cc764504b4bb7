"""Chooses the running job that is suspended, so that a waiting one borrows its nodes.

Application suspension is one of the decisions of the paper's scheduler (section 2.1). Its
policies of section 2.2 queue a job instead, where no harvest brings the minimum. Here the
first waiting job then borrows nodes of the longest-running job that is suitable. That job
is stopped as a whole, keeps its memory, and continues when the borrower has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from msgspec import Struct

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.sizes.malleable_job import least_nodes
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun
from cosched.core.errors import CoschedError


class Suspended(Struct, frozen=True):
    """The suspensions of a job, as a queue restores them after a restart."""

    #: The job that borrows its nodes, or is to; None: it is not suspended.
    for_job: JobId | None
    since_ns: int | None  #: when its tasks were stopped; None: that is not confirmed
    continues: bool  #: it was ordered to continue
    times: int  #: how often it was suspended, this time included
    total_ns: int  #: how long it was suspended before, in all


@dataclass(frozen=True, slots=True)
class Suspension:
    """The strategy of suspensions. Both bounds together bound the time that a job loses."""

    longest_ns: int  #: no job borrows nodes for a longer time limit than this
    most: int = 2  #: how often a job is suspended at most

    def __post_init__(self) -> None:
        if self.longest_ns < 1:
            raise CoschedError(f"suspension of {self.longest_ns} ns: want 1 or more")
        if self.most < 1:
            raise CoschedError(f"{self.most} suspensions of a job: want 1 or more")

    def candidates(
        self,
        running: Iterable[tuple[ResizableRun, int]],
        job: Job,
        age_ns: int,
        now_ns: int,
    ) -> list[ResizableRun]:
        """Returns the running jobs whose nodes a job can borrow, the longest-running first.
        running: the runs, each with the number of nodes that it can lend. age_ns: the least
        age of such a job."""
        found = [
            run
            for run, nodes in running
            if nodes >= least_nodes(job)
            and run.suspensions < self.most
            and run.age_ns(now_ns) >= age_ns
            and (run.end_ns > now_ns or not run.job.limited)
            and self._is_short(job, nodes, now_ns)
        ]
        return sorted(found, key=lambda run: (run.start_ns, run.job.number))

    def _is_short(self, job: Job, nodes: int, now_ns: int) -> bool:
        """Returns whether a job on some of these nodes ends in time."""
        if not job.limited:
            return False
        run = ResizableRun(job, min(job.size, nodes), now_ns)
        return run.end_with_ns(run.size, now_ns) - now_ns <= self.longest_ns
