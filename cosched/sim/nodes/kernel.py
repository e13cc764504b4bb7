"""Simulates nodes that the kernel alone shares, without coordination among nodes.

A rank computes until its grain is done or the kernel takes the CPU from it. Then it waits
for its peers. A waiting rank either spins, which uses CPU time (Open MPI, MPICH 4), or
yields the CPU to other ranks (MPICH 5).

The kernel does what CFS and EEVDF have in common for tasks of one weight. The rank with the
least CPU time runs next. It keeps the CPU until the first tick after the base slice. A rank
that wakes up gets no credit for its sleep. Interrupts take a little of every slice, so the
order of ranks changes slowly. All CPUs of one machine tick together: there, two ranks of a
job that run in different slices do not meet until the order changes.

A large message asks for consent first, so it has several legs; each needs one side on its
CPU. Every grain is an event, so the cost grows with nodes x grains. All ranks see the end
of a step at once, which favours the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from cosched.core.units import NS_PER_US
from cosched.sim.nodes.model import (
    BLOCKS,
    Cluster,
    Pattern,
    Program,
    grid,
    rounds,
)
from cosched.sim.virtual_time import DECIDE, END, VirtualTime

#: Interrupts take up to this share of a slice.
TAKEN = 0.01
#: CPU time of a rank to answer a leg of a message.
LEG_NS = NS_PER_US


class _Rank:
    """One rank: ``left_ns`` of the present grain; 0 while it waits."""

    __slots__ = (
        "blocks",
        "down",
        "got",
        "job",
        "left_ns",
        "need",
        "node",
        "place",
        "queued",
        "used_ns",
    )

    def __init__(self, job: _Job, node: int, place: int) -> None:
        self.job = job
        self.node = node
        self.place = place
        self.left_ns = 0
        self.queued = False  # it runs or waits for the CPU
        self.used_ns = 0  # CPU time, by which the node orders its ranks
        self.blocks = 0  # of this sweep that are done
        self.need = 0  # the number of peers that send it blocks
        self.got: list[int] = []  # blocks received, from each of them
        self.down: list[tuple[_Rank, int]] = []  # receivers of our blocks


class _Job:
    """One job."""

    def __init__(self, program: Program, nodes: Sequence[int]) -> None:
        self.program = program
        self.ranks = [_Rank(self, node, place) for place, node in enumerate(nodes)]
        self.steps_left = program.steps
        self.launching = program.launch_ns > 0
        self.legs_left = 0  # legs left of the present message
        self.out = len(self.ranks)  # ranks that have not ended the step, or its leg
        self.end_ns: int | None = None
        if program.pattern is Pattern.WAVEFRONT:
            self._connect()

    def _connect(self) -> None:
        rows, columns = grid(len(self.ranks))
        for rank in self.ranks:
            row, column = divmod(rank.place, columns)
            below = [rank.place + columns] if row + 1 < rows else []
            right = [rank.place + 1] if column + 1 < columns else []
            for place in below + right:
                peer = self.ranks[place]
                rank.down.append((peer, peer.need))
                peer.need += 1
        for rank in self.ranks:
            rank.got = [0] * rank.need


class _Node:
    """One node: the ranks that share its CPU. present: the rank that has it."""

    __slots__ = ("present", "since_ns", "tick_ns", "turn_ns", "version", "waiting")

    def __init__(self, tick_ns: int) -> None:
        self.present: _Rank | None = None
        self.waiting: list[_Rank] = []
        self.tick_ns = tick_ns  # when its first tick comes
        self.since_ns = 0  # until then its time is counted
        self.turn_ns = 0  # the end of its turn, if it goes on as long
        self.version = 0

    def least_used_ns(self) -> int:
        """Returns the least CPU time of its ranks."""
        ranks = [*self.waiting, *([self.present] if self.present else [])]
        return min((rank.used_ns for rank in ranks), default=0)


class Uncoordinated:
    """Jobs on nodes under the kernel alone. spins: waiting ranks use CPU time."""

    def __init__(
        self, cluster: Cluster, programs: Sequence[Program], spins: bool, seed: int
    ) -> None:
        self._cluster = cluster
        self._spins = spins
        self._chance = Random(seed)
        self._engine = VirtualTime()
        self._taken_ns = round(cluster.quantum_ns * TAKEN)
        tick_ns = cluster.quantum_ns
        self._nodes = [
            _Node(0 if cluster.same_ticks else self._chance.randrange(tick_ns))
            for _ in range(cluster.nodes)
        ]
        self.jobs = [_Job(program, cluster.nodes_of(program)) for program in programs]
        for job in self.jobs:
            self._engine.at(job.program.submit_ns, END, self._start, job)

    def run(self, progress: Callable[[], None]) -> list[int]:
        """Simulates; returns when each job ends."""
        self._engine.run(progress)
        ends = [job.end_ns for job in self.jobs]
        assert None not in ends
        return [end for end in ends if end is not None]

    @property
    def done_share(self) -> float:
        """The share of all steps that is over."""
        whole = sum(job.program.steps for job in self.jobs)
        return 1.0 - sum(job.steps_left for job in self.jobs) / whole

    def _start(self, job: _Job) -> None:
        if self._spins:
            for rank in job.ranks:
                self._join(rank)
        if not job.launching:
            self._begin_step(job)
            return
        job.out = len(job.ranks)
        for rank in job.ranks:
            self._give(rank, job.program.launch_ns)

    def _begin_step(self, job: _Job) -> None:
        job.out = len(job.ranks)
        job.legs_left = job.program.legs - 1
        if job.program.pattern in (Pattern.NONE, Pattern.WAVEFRONT):
            job.legs_left = 0
        for rank in job.ranks:
            rank.blocks = 0
            rank.got = [0] * rank.need
        for rank in job.ranks:
            if not rank.need:
                self._work(rank)

    def _next_leg(self, job: _Job) -> None:
        job.legs_left -= 1
        job.out = len(job.ranks)
        for rank in job.ranks:
            self._give(rank, LEG_NS)

    def _work(self, rank: _Rank) -> None:
        """Gives a waiting rank its next grain."""
        program = rank.job.program
        meets = program.pattern is not Pattern.NONE
        left_ns = program.grain_ns if meets else program.step_ns
        if program.imbalance and rank.place and meets:
            share = 1.0 - program.imbalance * self._chance.random()
            left_ns = max(1, round(left_ns * share))
        self._give(rank, left_ns)

    def _give(self, rank: _Rank, left_ns: int) -> None:
        rank.left_ns = left_ns
        node = self._nodes[rank.node]
        if node.present is rank:
            self._count(node)  # its spinning does not count as work
            self._plan(rank.node)
        else:
            self._join(rank)

    # -- turns ----------------------------------------------------------------------

    def _join(self, rank: _Rank) -> None:
        """Adds the rank to its node, without credit for CPU time that it did not use."""
        if rank.queued:
            return
        node = self._nodes[rank.node]
        rank.queued = True
        rank.used_ns = max(rank.used_ns, node.least_used_ns())
        if not self._spins or node.present is None:
            node.waiting.append(rank)
        else:  # at a random place: nodes have different phases
            node.waiting.insert(self._chance.randrange(len(node.waiting) + 1), rank)
        if node.present is None:
            self._turn(rank.node)

    def _turn(self, number: int) -> None:
        """Gives the CPU to the rank with the least CPU time."""
        node = self._nodes[number]
        node.version += 1
        node.present = None
        if not node.waiting:
            return
        place = min(range(len(node.waiting)), key=lambda at: node.waiting[at].used_ns)
        node.present = node.waiting.pop(place)
        now_ns, tick_ns = self._engine.now_ns, self._cluster.quantum_ns
        node.since_ns = now_ns
        least_ns = now_ns + self._cluster.base_ns
        node.turn_ns = least_ns + (node.tick_ns - least_ns) % tick_ns
        self._plan(number)

    def _plan(self, number: int) -> None:
        node = self._nodes[number]
        assert node.present is not None
        node.version += 1
        ends_ns = node.turn_ns
        if node.present.left_ns:
            ends_ns = min(ends_ns, self._engine.now_ns + node.present.left_ns)
        self._engine.at(ends_ns, DECIDE, self._tick, (number, node.version))

    def _count(self, node: _Node) -> int:
        """Adds the present rank's CPU time since the last count, and returns it."""
        assert node.present is not None
        ran_ns = self._engine.now_ns - node.since_ns
        node.since_ns = self._engine.now_ns
        node.present.used_ns += ran_ns
        return ran_ns

    def _tick(self, what: tuple[int, int]) -> None:
        number, version = what
        node = self._nodes[number]
        if version != node.version:
            return
        rank = node.present
        assert rank is not None
        ran_ns = self._count(node)
        if rank.left_ns:
            rank.left_ns -= ran_ns
            if not rank.left_ns:
                self._finish(rank)
        if version != node.version:
            return  # the end of the grain has given the CPU to another rank
        if not (rank.left_ns or self._spins):
            rank.queued = False
            self._turn(number)
        elif self._engine.now_ns >= node.turn_ns:
            rank.used_ns -= self._chance.randrange(self._taken_ns + 1)
            node.waiting.append(rank)
            self._turn(number)
        else:
            self._plan(number)

    def _finish(self, rank: _Rank) -> None:
        """Lets other ranks go on after a rank has done its grain."""
        job = rank.job
        message_ns = job.program.message_of(self._cluster)
        now_ns = self._engine.now_ns
        if job.program.pattern is Pattern.WAVEFRONT and not job.launching:
            rank.blocks += 1
            for peer in rank.down:
                self._engine.at(now_ns + message_ns, END, self._receive, peer)
            if rank.blocks < BLOCKS:
                self._try_block(rank)
                return
        job.out -= 1
        if job.out:
            return
        if job.launching:
            job.launching = False
            self._engine.at(now_ns, END, self._begin_step, job)
            return
        if job.legs_left:
            self._engine.at(now_ns, END, self._next_leg, job)
            return
        wait_ns = message_ns * rounds(len(job.ranks))
        if job.program.pattern in (Pattern.NONE, Pattern.WAVEFRONT):
            wait_ns = 0
        self._engine.at(now_ns + wait_ns, END, self._end_step, job)

    def _receive(self, what: tuple[_Rank, int]) -> None:
        rank, peer = what
        rank.got[peer] += 1
        if not rank.left_ns:
            self._try_block(rank)

    def _try_block(self, rank: _Rank) -> None:
        if rank.blocks < BLOCKS and all(count > rank.blocks for count in rank.got):
            self._work(rank)

    def _end_step(self, job: _Job) -> None:
        job.steps_left -= 1
        if job.steps_left:
            self._begin_step(job)
            return
        job.end_ns = self._engine.now_ns
        if not self._spins:
            return
        for rank in job.ranks:
            node = self._nodes[rank.node]
            if node.present is rank:
                self._turn(rank.node)
            else:
                node.waiting.remove(rank)
