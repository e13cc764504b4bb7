"""Computes the progress of the ranks of a simulated job.

Between two switches every rank computes at a constant speed. All steps in between take
equally long, so ``advance`` jumps over as many as fit. The cost of a job to the simulator
does not depend on its grain.

A speed is a share of a CPU, above 0. Times are nanoseconds, as floats. Invariants: no rank
does more work in a step than the step needs; no step ends before its slowest rank; in a
wavefront no rank is ahead of the ranks that it receives from.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from cosched.sim.nodes.model import (
    BLOCKS,
    Cluster,
    Pattern,
    Program,
    diagonals,
    rounds,
    senders,
)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Ranks(Protocol):
    """The ranks of one job."""

    @property
    def step(self) -> int:
        """Steps that are over."""

    def advance(self, now_ns: float) -> None:
        """Computes until ``now_ns`` at the speeds given last."""

    def resume(self, speed: Floats, on: Flags) -> float:
        """Sets the speeds from now on; returns when the job would end with them."""

    def receives_ns(self, on: Flags) -> Floats:
        """Returns when each rank next receives a message of a rank that is on;
        infinite if there is none."""

    def note_received(self, rank: int) -> None:
        """Notes that the rank received the message of ``receives_ns``."""


def make_ranks(
    program: Program,
    ranks: int,
    cluster: Cluster,
    chance: np.random.Generator,
    now_ns: float,
) -> Ranks:
    """Returns the ranks of a job that begins to compute now."""
    if program.pattern is Pattern.WAVEFRONT:
        return Wave(program, ranks, cluster, now_ns)
    return Meeting(program, ranks, cluster, chance, now_ns)


class Meeting:
    """Ranks that compute, then all meet (bulk, alltoall), or meet at the end only (none).

    A round of a meeting takes the time of a message. With an unscheduled rank it lasts
    until that rank looks again. need, done: CPU time of each rank in the present step.
    """

    def __init__(
        self,
        program: Program,
        ranks: int,
        cluster: Cluster,
        chance: np.random.Generator,
        now_ns: float,
    ) -> None:
        self.step = 0
        self._steps = program.steps
        self._pattern = program.pattern
        self._peers = senders(program.pattern, ranks)
        self._message_ns = program.message_of(cluster)
        self._trap_ns = cluster.trap_ns * program.legs
        self._rounds = 0 if program.pattern is Pattern.NONE else rounds(ranks)
        self.need = np.full(ranks, float(program.step_ns))
        if program.imbalance and ranks > 1:
            # One rank needs all of it, so a step alone takes its full time.
            self.need[1:] *= 1.0 - program.imbalance * chance.random(ranks - 1)
        self.done = np.zeros(ranks)
        self._received_in = np.full(ranks, -1)  # the step of each rank's last message
        self._met = 0.0  # the share of the present meeting that is over
        self._at_ns = now_ns
        self._ends_ns = self._lasts_ns = now_ns
        self.resume(np.ones(ranks), np.ones(ranks, dtype=np.bool_))

    def advance(self, now_ns: float) -> None:
        if self.step >= self._steps:
            return
        if now_ns < self._ends_ns:
            elapsed, since_ns = now_ns - self._at_ns, self._at_ns
        else:
            jumped = 1 + int((now_ns - self._ends_ns) // self._lasts_ns)
            self.step += jumped
            elapsed = now_ns - self._ends_ns - (jumped - 1) * self._lasts_ns
            since_ns = now_ns - elapsed
            self.done[:] = 0.0
            self._met = 0.0
            self._computed_ns = since_ns + float((self.need / self._speed).max())
        self.done = np.minimum(self.need, self.done + self._speed * elapsed)
        met_ns = now_ns - max(self._computed_ns, since_ns)
        if met_ns > 0.0 and self._meeting_ns > 0.0:
            self._met = min(1.0, self._met + met_ns / self._meeting_ns)
        self._at_ns = now_ns

    def resume(self, speed: Floats, on: Flags) -> float:
        round_ns = self._message_ns if on.all() else self._trap_ns
        self._speed = speed
        self._meeting_ns = float(self._rounds * round_ns)
        left_ns = float(((self.need - self.done) / speed).max())
        self._computed_ns = self._at_ns + left_ns
        self._ends_ns = self._computed_ns + (1.0 - self._met) * self._meeting_ns
        self._lasts_ns = float((self.need / speed).max()) + self._meeting_ns
        return self._ends_ns + (self._steps - self.step - 1) * self._lasts_ns

    def receives_ns(self, on: Flags) -> Floats:
        computed = self._at_ns + (self.need - self.done) / self._speed
        sent = np.where(on, computed, np.inf)
        if self._pattern is Pattern.ALLTOALL:
            heard = np.full_like(sent, sent.min())
        else:
            heard = np.full_like(sent, np.inf)
            for peer in self._peers:
                np.minimum(heard, sent[peer], out=heard)
        heard += self._message_ns
        next_step = self._ends_ns + self.need / self._speed
        first = np.maximum(computed, heard)
        again = np.where(np.isinf(first), np.inf, np.maximum(first, next_step))
        return np.where(self._received_in == self.step, again, first)

    def note_received(self, rank: int) -> None:
        """Notes it: the next message of the rank is that of another step."""
        self._received_in[rank] = self.step


class Wave:
    """Sweeps over a grid of ranks, in blocks, one after the other.

    The ranks of a diagonal advance together, at the speed of the slowest. A diagonal is at
    least a block behind the one before it. done: CPU time of each diagonal in this sweep.
    """

    def __init__(
        self, program: Program, ranks: int, cluster: Cluster, now_ns: float
    ) -> None:
        self.step = 0
        self._steps = program.steps
        self._block = float(program.grain_ns)
        self._full = self._block * BLOCKS
        self._message_ns = program.message_of(cluster)
        self._trap_ns = cluster.trap_ns * program.legs
        self._peers = senders(Pattern.WAVEFRONT, ranks)
        self._stage = diagonals(ranks)
        self._order = np.argsort(self._stage, kind="stable")
        sizes = np.bincount(self._stage)
        self._bounds = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        self.done = np.zeros(len(sizes))
        self._lead = self._block * np.arange(len(sizes))
        self._at_ns = now_ns
        self._ends_ns = self._lasts_ns = now_ns
        self.resume(np.ones(ranks), np.ones(ranks, dtype=np.bool_))

    def advance(self, now_ns: float) -> None:
        if self.step >= self._steps:
            return
        if now_ns < self._ends_ns:
            self._compute(now_ns - self._at_ns)
        else:
            jumped = 1 + int((now_ns - self._ends_ns) // self._lasts_ns)
            self.step += jumped
            self.done[:] = 0.0
            self._delay = np.cumsum(self._hop) - self._hop
            self._compute(now_ns - self._ends_ns - (jumped - 1) * self._lasts_ns)
        self._at_ns = now_ns

    def _compute(self, elapsed_ns: float) -> None:
        alone = self.done + self._speed * np.maximum(0.0, elapsed_ns - self._delay)
        alone = np.minimum(alone, self._full)
        first = int(np.argmax(alone < self._full))  # 0 as well if there is none
        if alone[first] < self._full:
            rest = alone[first:] + self._lead[first:]
            alone[first:] = np.minimum.accumulate(rest) - self._lead[first:]
        self.done = np.maximum(self.done, alone)

    def resume(self, speed: Floats, on: Flags) -> float:
        self._speed = np.minimum.reduceat(speed[self._order], self._bounds)
        every_on = np.logical_and.reduceat(on[self._order], self._bounds)
        message_ns = np.where(every_on, self._message_ns, self._trap_ns)
        #: The time that a block spends on each diagonal.
        self._hop = self._block / self._speed + message_ns
        tail = np.cumsum(self._hop[::-1])[::-1] - self._hop
        self._delay = self._delays()
        left = self._full - self.done
        ends = np.where(left > 0.0, self._delay + left / self._speed + tail, 0.0)
        self._ends_ns = self._at_ns + float(ends.max())
        fresh = np.cumsum(self._hop) - self._hop + self._full / self._speed + tail
        self._lasts_ns = float(fresh.max())
        return self._ends_ns + (self._steps - self.step - 1) * self._lasts_ns

    def _delays(self) -> Floats:
        """Returns how long the wave needs to reach each diagonal."""
        begun = np.flatnonzero(self.done > 0.0)
        front = int(begun[-1]) if len(begun) else 0
        hop = self._hop.copy()
        hop[front] -= min(self.done[front], self._block) / self._speed[front]
        hop[:front] = 0.0
        delay = np.cumsum(hop) - hop
        delay[: front + 1] = 0.0
        return delay

    def receives_ns(self, on: Flags) -> Floats:
        into_block = np.remainder(self.done, self._block)
        of_stage = self._at_ns + self._delay + (self._block - into_block) / self._speed
        of_stage[self.done >= self._full] = self._ends_ns
        heard = np.zeros(len(on), dtype=np.bool_)
        for peer in self._peers:
            heard |= on[peer]
        return np.where(heard, of_stage[self._stage], np.inf)

    def note_received(self, rank: int) -> None:
        """Does nothing: every block brings another message."""
