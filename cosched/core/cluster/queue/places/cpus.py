"""Gives jobs CPUs of nodes, so that small jobs run side by side on a node.

A job gets the nodes with the fewest idle CPUs that are enough for it, so that other nodes
stay whole. A job that shares gets CPUs that no job has, as long as there are enough;
then it takes turns with others that share.

All nodes count with the same number of CPUs, that of the smallest one. It is known once a
node has joined.

A matcher first finds the nodes with all else that a job needs, by features and counts
(``matching``).

Limits: as ``on_board``. No conservative backfill.
"""

from __future__ import annotations

from collections.abc import Mapping

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals, count, from_numbers, numbers
from cosched.core.cluster.queue.places.cpu_board import CpuBoard, CpuJob
from cosched.core.cluster.queue.places.matching import (
    NO_COUNTS,
    Counts,
    Matcher,
    NodeOffer,
)
from cosched.core.cluster.queue.places.needs import shortage
from cosched.core.cluster.queue.places.on_board import OnBoard
from cosched.core.cluster.queue.places.place import OVERRUN_NS, Freed, Spot
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S

#: A late job is expected to take at least so much more.
_OVERRUN_LEAST_NS = NS_PER_S


class Cpus(OnBoard[CpuBoard]):
    """The CPUs of these nodes. A spot is a tuple of nodes.

    cpus: those of each node; 0: not known yet. jobs: how many jobs may share a CPU.
    in_domain: counts of the whole domain, such as licences.
    """

    def __init__(
        self, nodes: Intervals, cpus: int, jobs: int = 1, in_domain: Counts = NO_COUNTS
    ) -> None:
        super().__init__(CpuBoard(cpus, jobs, Matcher(dict(in_domain))), nodes, OVERRUN_NS)
        self._since_ns: dict[JobId, int] = {}  # when each job began
        self._matches = False  # whether a job has needed more than CPUs

    @property
    def total(self) -> int:  # type: ignore[override]
        return self.board.cpus * self._most_nodes

    @property
    def capacity(self) -> int:  # type: ignore[override]
        return self.board.cpus * self.board.in_service

    @property
    def free_alone(self) -> int:
        return self.board.empty

    def check(self, job: Job) -> None:
        if not isinstance(job, CpuJob) or job.waits_for_mates:
            raise CoschedError(
                f"job {job.number}: CPUs of nodes are for jobs without mates that name how "
                "many they need"
            )
        nodes = self._most_nodes
        if not 1 <= job.nodes <= nodes:
            raise CoschedError(
                f"job {job.number} wants {job.nodes} nodes; the machine has {nodes}"
            )
        if job.cpus < 1:
            raise CoschedError(f"job {job.number} wants {job.cpus} CPUs of a node")

    def check_needs(self, job: Job) -> None:
        assert isinstance(job, CpuJob)
        self._matches = self._matches or job.needs is not None
        if job.needs is None or self._most_nodes > count(self._nodes):
            return  # nodes that come later may have it
        problem = shortage(self.board.matcher, job.needs, numbers(self._nodes))
        if problem:
            raise CoschedError(f"infeasible: {problem}")

    @property
    def takes_all(self) -> bool:
        # The nodes in service may lack what a job needs.
        return super().takes_all and not self._matches

    def fits_alone(self, job: Job) -> bool:
        assert isinstance(job, CpuJob)
        return job.nodes <= self.board.capable(job)

    # --- spots ----------------------------------------------------------------------------

    def _fit(self, job: Job, board: CpuBoard) -> Spot | None:
        assert isinstance(job, CpuJob)
        wanted = board.wanted(job)
        able = board.able(job)
        if len(able) < job.nodes:
            return None
        # Idle CPUs before shared ones; of these the nodes where the fewest are idle.
        able.sort(key=lambda node: (board.idle(node) < wanted, board.idle(node), node))
        return tuple(sorted(able[: job.nodes]))

    # --- jobs -----------------------------------------------------------------------------

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        self._start(job, spot, now_ns)
        return from_numbers(spot)

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        self._check_own(job, nodes)
        assert isinstance(job, CpuJob)
        self.board.place(job, tuple(numbers(nodes)))
        self._expect_end(job, since_ns)

    def _expect_end(self, job: Job, since_ns: int) -> None:
        super()._expect_end(job, since_ns)
        self._since_ns[job.number] = since_ns

    def release(self, number: JobId) -> Freed | None:
        del self._since_ns[number]
        return super().release(number)

    def _more_ns(self, number: JobId, now_ns: int) -> int:
        """Returns as much as the job has run, within bounds: an estimate from earlier runs
        may be of seconds."""
        ran_ns = now_ns - self._since_ns[number]
        return min(max(ran_ns, _OVERRUN_LEAST_NS), self._overrun_ns)

    def neighbours_of(self, number: JobId) -> list[JobId]:
        """Returns the jobs with which a job may have to share CPUs, ascending."""
        if not self.board.has(number):
            return []
        there = [
            job for node in self.board.nodes_of(number) for job in self.board.jobs_on(node)
        ]
        sharing = {job.number for job in there if job.shares}
        return sorted(sharing - {number}) if number in sharing else []

    # --- nodes ----------------------------------------------------------------------------

    def offer(self, offer: NodeOffer[int]) -> None:
        if offer.name in self.board.matcher:
            self.board.matcher.change(offer)
        else:
            self.board.matcher.join(offer)
        self.moved += 1

    def resize(self, cpus: int) -> None:
        """Lets each node have this number of CPUs."""
        self.board.cpus = cpus
        self.moved += 1

    def share(self, rows: int, held: Mapping[JobId, tuple[Job, Intervals, int]]) -> None:
        self.board.jobs = rows
        self._ends.clear()
        for job, _, since_ns in held.values():
            self._expect_end(job, since_ns)
        self.moved += 1
