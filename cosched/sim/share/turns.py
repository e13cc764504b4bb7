"""Decides which of the jobs on a machine progress, and how fast.

All nodes order their jobs by the same costs (``core.node.knowledge``). A job progresses if
each of its nodes is free of earlier jobs in this order; otherwise the nodes that wait for
it run the next job. The time is divided as a fluid: each job gets its guaranteed part
(``core.node.guarantee``), and the rest goes by the order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cosched.core.node.knowledge import doubled_ns, estimate, outlived_ns
from cosched.core.node.settings import Settings
from cosched.core.node.slices.rest import HOLD_PERCENT


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of sharing."""

    switch_ns: int  #: the time lost by a switch
    #: The part of its speed that a job loses for each job that is also on its nodes.
    beside: float


@dataclass(slots=True)
class SharingRun:
    """A job on the machine."""

    index: int  #: its place in the workload
    nodes: int  #: its nodes, a bit for each
    lengths_ns: Sequence[int]  #: the run times that it may have; empty: unknown
    left_ns: float  #: the rest of its run time, at full speed
    age_ns: float = 0.0  #: the time that it was scheduled
    rivals: int = 1  #: jobs on the fullest of its nodes, this one included
    first: bool = False  #: whether it is in front on all its nodes
    rate: float = 0.0  #: the part of the time that it gets now, 0 to 1
    speed: float = 1.0  #: the part of that time that is progress, 0 to 1
    switches: int = 0  #: how often it came to the front of shared nodes

    @property
    def end_in_ns(self) -> float:
        """The time until its end at the present rate."""
        return self.left_ns / (self.rate * self.speed)


class Turns:
    """Orders the jobs of a machine."""

    def __init__(self, settings: Settings, costs: Costs) -> None:
        self._least_ns = settings.slice_ns
        self._share = settings.least_share
        self._costs = costs

    def order(self, jobs: Iterable[SharingRun]) -> list[SharingRun]:
        """Returns the jobs by their costs; equal ones by their start."""
        return sorted(jobs, key=lambda job: (self._cost_ns(job), job.index))

    def _cost_ns(self, job: SharingRun) -> int:
        cost_ns = estimate(round(job.age_ns), job.lengths_ns, self._least_ns).cost_ns
        return cost_ns * HOLD_PERCENT // 100 if job.first else cost_ns

    def allot(self, jobs: Iterable[SharingRun]) -> None:
        """Sets the rate and the speed of each job."""
        taken = 0
        for job in self.order(jobs):
            first = not job.nodes & taken
            if first:
                taken |= job.nodes
            self._set(job, first)

    def _set(self, job: SharingRun, first: bool) -> None:
        rivals = job.rivals
        guaranteed = self._share.percent / 100 if rivals > 1 else 0.0
        if first and not job.first and rivals > 1:
            job.left_ns += self._costs.switch_ns
            job.switches += 1
        job.first = first
        job.rate = guaranteed / rivals + (1 - guaranteed if first else 0.0)
        # In each period, each job gets its guaranteed part in one piece.
        lost = (rivals > 1) * 2 * self._costs.switch_ns / self._share.period_ns
        job.speed = max(0.01, (1 - lost) * (1 - self._costs.beside * (rivals - 1)))

    def review_in_ns(self, job: SharingRun) -> float:
        """Returns after which time the job's cost may rise above that of another job."""
        ages_ns = map(outlived_ns, job.lengths_ns)
        left = [at_ns + 1 - job.age_ns for at_ns in ages_ns if at_ns >= job.age_ns]
        if left:
            in_ns = min(left)
        elif job.lengths_ns:
            in_ns = max(self._least_ns, job.age_ns / 4)
        else:
            in_ns = max(1.0, doubled_ns(round(job.age_ns), self._least_ns) - job.age_ns)
        return in_ns / job.rate
