"""Keeps the jobs on node halves, and plans with their placement.

Sections 2.4 and 3.3 of the paper. Suitable halves depend on the neighbours. So the spot of
the first waiting job is a plan (``on_board``), not a count of nodes. A started job keeps
its halves until it ends.

A job that is larger than a part of the nodes (``share_up_to``) has whole nodes: it would
wait longer for half of each of twice as many nodes than it saves.

Halves 2n and 2n + 1 are those of node n. All jobs are ``SharingJob``s, also those that have
whole nodes. Counts of this place are halves, but its nodes are nodes.

Limits: jobs here wait for no mates in other domains.
"""

from __future__ import annotations

from collections.abc import Sequence

from cosched.core.cluster.queue.halves.board import Board, Placed
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.placement import ALL, Placement, whole
from cosched.core.cluster.queue.halves.sharing_job import SharingJob
from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import Intervals, from_numbers, numbers
from cosched.core.cluster.queue.places.on_board import OnBoard
from cosched.core.cluster.queue.places.place import Spot
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.program_pairs import Pair
from cosched.core.units import NS_PER_S

OVERRUN_NS = 10 * NS_PER_S


class Halves(OnBoard[Board]):
    """The halves of these nodes. A spot is the ``Placed`` of a job."""

    def __init__(
        self,
        nodes: Intervals,
        placement: Placement,
        learner: Learner,
        overrun_ns: int = OVERRUN_NS,
        share_up_to: float = ALL,
    ) -> None:
        """share_up_to: the largest jobs with halves, as a part of the nodes."""
        if not nodes:
            raise CoschedError("a machine of 0 nodes: want 1 or more")
        super().__init__(Board(0), nodes, overrun_ns)
        self.learner = learner
        self.share_up_to = share_up_to
        self._placement = placement

    def _fit(self, job: Job, board: Board) -> Spot | None:
        assert isinstance(job, SharingJob)
        return self._place(job, board)

    def _place(self, job: SharingJob, board: Board) -> Placed | None:
        if self.is_too_large(job, board):
            return whole(job, board)
        return self._placement(job, board)

    def is_too_large(self, job: SharingJob, board: Board | None = None) -> bool:
        """Returns whether a job that wants to share is too large for halves. board: None
        for the present one."""
        if not job.shares or self.share_up_to >= ALL:
            return False
        nodes = (self.board if board is None else board).in_service
        return not job.is_up_to(self.share_up_to, nodes)

    @property
    def total(self) -> int:  # type: ignore[override]
        return 2 * self._most_nodes

    @property
    def capacity(self) -> int:  # type: ignore[override]
        return 2 * self.board.in_service

    @property
    def free_alone(self) -> int:
        return sum(1 for _ in self.board.empty_nodes())

    def check(self, job: Job) -> None:
        if not isinstance(job, SharingJob) or job.waits_for_mates:
            raise CoschedError(
                f"job {job.number}: halves of nodes are for jobs that say whether they "
                "share, and have no mates"
            )
        nodes = self._most_nodes
        if job.size < 1 or not self._fits_on(nodes, job):
            halves = job.shares and not self.is_too_large(job, Board(nodes))
            wanted = f"{job.size} halves of nodes" if halves else f"{job.whole} nodes"
            raise CoschedError(
                f"job {job.number} wants {wanted}; the machine has {nodes} nodes"
            )

    def fits_alone(self, job: Job) -> bool:
        assert isinstance(job, SharingJob)
        return self._fits_on(self.board.in_service, job)

    def _fits_on(self, nodes: int, job: SharingJob) -> bool:
        """Returns whether a job fits on a number of nodes without other jobs."""
        return self._place(job, Board(nodes)) is not None

    def limit(self, share_up_to: float) -> None:
        self.share_up_to = share_up_to
        self.moved += 1

    def observe(self, primary: str, background: str | None, speedup: float) -> None:
        self.learner.observe(primary, background, speedup)

    def learn(self, pair: Pair, speed: float, runs: int, *, harmful: bool) -> None:
        self.learner.learn(pair, speed, runs)
        (self.learner.harmful.add if harmful else self.learner.harmful.discard)(pair)

    # --- jobs -----------------------------------------------------------------------------

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        self._start(job, spot, now_ns)
        return _nodes_of(spot)

    def halves_of(self, number: JobId) -> Intervals:
        spot = self.board.spot(number)
        return from_numbers((*spot.halves, *spot.closed))

    def neighbours_of(self, number: JobId) -> Sequence[JobId]:
        """Returns the jobs on the other halves of a job's nodes, ascending."""
        if not self.board.has(number):
            return ()
        halves = self.board.spot(number).halves
        beside = (self.board.neighbour(half) for half in halves)
        found = {other.number for other in beside if other is not None}
        return sorted(found - {number})

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        assert isinstance(job, SharingJob)
        self._check_own(job, nodes)
        own = numbers(halves) or [
            half for node in numbers(nodes) for half in (2 * node, 2 * node + 1)
        ]
        self.board.adopt(job, Placed(tuple(own)))
        self._expect_end(job, since_ns)


def _nodes_of(spot: Placed) -> Intervals:
    return from_numbers({half >> 1 for half in (*spot.halves, *spot.closed)})
