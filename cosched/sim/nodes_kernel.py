"""Nodes that the kernel alone shares: each goes round its ranks and knows of no other.

A rank computes until its quantum is over or its grain is done; then it waits for its
peers. A waiting rank either spins, which takes its quanta as computing would (Open MPI,
MPICH 4), or yields, which leaves them to the others (MPICH 5). Quanta differ by a tenth,
so that nodes do not keep step by chance.

Every grain is an event here: what this costs grows with nodes x grains. The end of a step
counts as heard by all ranks at once, which favours the kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from cosched.sim.engine import DECIDE, END, Engine
from cosched.sim.nodes_model import (
    BLOCKS,
    Cluster,
    Pattern,
    Program,
    grid,
    rounds,
)


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
    )

    def __init__(self, job: _Job, node: int, place: int) -> None:
        self.job = job
        self.node = node
        self.place = place
        self.left_ns = 0
        self.queued = False  # it takes part in its node's turns
        self.blocks = 0  # of this sweep that are done
        self.need = 0  # how many peers a block comes from
        self.got: list[int] = []  # blocks received, from each of them
        self.down: list[tuple[_Rank, int]] = []  # who gets ours, and as which peer


class _Job:
    """One job."""

    def __init__(self, program: Program, nodes: Sequence[int]) -> None:
        self.program = program
        self.ranks = [_Rank(self, node, place) for place, node in enumerate(nodes)]
        self.steps_left = program.steps
        self.out = len(self.ranks)  # ranks that have not ended the step
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
    """One node: the ranks that take turns, the one in front running."""

    __slots__ = ("quantum_ends_ns", "queue", "since_ns", "version")

    def __init__(self) -> None:
        self.queue: deque[_Rank] = deque()
        self.since_ns = 0
        self.quantum_ends_ns = 0
        self.version = 0


class Uncoordinated:
    """Jobs on nodes under the kernel alone. spins: waiting ranks use their quanta up."""

    def __init__(
        self, cluster: Cluster, programs: Sequence[Program], spins: bool, seed: int
    ) -> None:
        self._cluster = cluster
        self._spins = spins
        self._chance = Random(seed)
        self._engine = Engine()
        self._nodes = [_Node() for _ in range(cluster.nodes)]
        self.jobs = [_Job(program, cluster.nodes_of(program)) for program in programs]
        for job in self.jobs:
            self._engine.at(job.program.submit_ns, END, self._start, job)

    def run(self, beat: Callable[[], None]) -> list[int]:
        """When each job ends."""
        self._engine.run(beat)
        ends = [job.end_ns for job in self.jobs]
        assert None not in ends
        return [end for end in ends if end is not None]

    @property
    def events(self) -> int:
        """Things that happened."""
        return self._engine.done

    @property
    def done_share(self) -> float:
        """How much of all steps is over."""
        whole = sum(job.program.steps for job in self.jobs)
        return 1.0 - sum(job.steps_left for job in self.jobs) / whole

    def _start(self, job: _Job) -> None:
        for rank in job.ranks:
            node = self._nodes[rank.node]
            if self._spins:
                rank.queued = True
                # Somewhere in the round: nodes have phases of their own.
                node.queue.insert(self._chance.randrange(len(node.queue) + 1), rank)
                if len(node.queue) == 1:
                    self._turn(rank.node)
                elif node.queue[0] is rank:
                    node.queue.rotate(-1)
        self._begin_step(job)

    def _begin_step(self, job: _Job) -> None:
        job.out = len(job.ranks)
        for rank in job.ranks:
            rank.blocks = 0
            rank.got = [0] * rank.need
            if not rank.need:
                self._work(rank)

    def _work(self, rank: _Rank) -> None:
        """A rank that waited has something to compute."""
        program = rank.job.program
        meets = program.pattern is not Pattern.NONE
        rank.left_ns = program.grain_ns if meets else program.step_ns
        if program.imbalance and rank.place and meets:
            share = 1.0 - program.imbalance * self._chance.random()
            rank.left_ns = max(1, round(rank.left_ns * share))
        node = self._nodes[rank.node]
        if not rank.queued:
            rank.queued = True
            node.queue.append(rank)
            if len(node.queue) == 1:
                self._turn(rank.node)
        elif node.queue[0] is rank:
            node.since_ns = self._engine.now_ns
            self._plan(rank.node)

    def _turn(self, number: int) -> None:
        """The rank in front gets a quantum."""
        node = self._nodes[number]
        quantum_ns = self._cluster.quantum_ns
        node.since_ns = self._engine.now_ns
        jitter_ns = self._chance.randrange(quantum_ns // 10 + 1)
        node.quantum_ends_ns = node.since_ns + quantum_ns - jitter_ns
        self._plan(number)

    def _plan(self, number: int) -> None:
        node = self._nodes[number]
        node.version += 1
        ends_ns = node.quantum_ends_ns
        left_ns = node.queue[0].left_ns
        if left_ns:
            ends_ns = min(ends_ns, node.since_ns + left_ns)
        self._engine.at(ends_ns, DECIDE, self._tick, (number, node.version))

    def _tick(self, what: tuple[int, int]) -> None:
        number, version = what
        node = self._nodes[number]
        if version != node.version:
            return
        now_ns = self._engine.now_ns
        rank = node.queue[0]
        if rank.left_ns:
            rank.left_ns -= now_ns - node.since_ns
            node.since_ns = now_ns
            if not rank.left_ns:
                self._finish(rank)
        if not (rank.left_ns or self._spins):
            rank.queued = False
            node.queue.popleft()
            if node.queue:
                self._turn(number)
        elif now_ns >= node.quantum_ends_ns:
            node.queue.rotate(-1)
            self._turn(number)
        else:
            self._plan(number)

    def _finish(self, rank: _Rank) -> None:
        """A rank has done a grain: others may go on now."""
        job = rank.job
        message_ns = self._cluster.message_ns
        now_ns = self._engine.now_ns
        if job.program.pattern is Pattern.WAVEFRONT:
            rank.blocks += 1
            for peer in rank.down:
                self._engine.at(now_ns + message_ns, END, self._receive, peer)
            if rank.blocks < BLOCKS:
                self._try_block(rank)
                return
        job.out -= 1
        if job.out == 0:
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
            in_front = node.queue[0] is rank
            node.queue.remove(rank)
            if in_front and node.queue:
                self._turn(rank.node)
            elif in_front:
                node.version += 1
