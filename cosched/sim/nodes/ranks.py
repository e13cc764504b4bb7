"""How far the ranks of a simulated job are.

Between two changes of who runs where, every rank computes at a constant speed. So all steps
that begin in between take equally long, and need not be simulated one by one: ``advance``
jumps over as many as fit. What a job costs the simulator does not depend on its grain.

A speed is a share of a CPU, above 0. Times are nanoseconds, as floats. Invariants, which
the tests hold: no rank does more in a step than the step asks for; no step ends before its
slowest rank; in a wavefront no rank is ahead of those that it hears from.
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
        """From now on these speeds. Returns when the job would end with them."""

    def receives_ns(self, on: Flags) -> Floats:
        """When each rank next receives a message that a rank sent which is on; infinite
        if none does."""

    def note_heard(self, rank: int) -> None:
        """The rank has received the message that ``receives_ns`` foresaw."""


def make_ranks(
    program: Program,
    ranks: int,
    cluster: Cluster,
    chance: np.random.Generator,
    now_ns: float,
) -> Ranks:
    """The ranks of a job that begins to compute now."""
    if program.pattern is Pattern.WAVEFRONT:
        return Wave(program, ranks, cluster, now_ns)
    return Meeting(program, ranks, cluster, chance, now_ns)


class Meeting:
    """Ranks that compute, then all meet (bulk, alltoall), or meet at the end only (none).

    A round of a meeting takes a message's time; if an unscheduled rank takes part, it takes
    until that one looks again.
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
        self._need = np.full(ranks, float(program.step_ns))
        if program.imbalance and ranks > 1:
            # One rank stays the slowest, so that a step alone takes as long as it says.
            self._need[1:] *= 1.0 - program.imbalance * chance.random(ranks - 1)
        self._done = np.zeros(ranks)
        self._heard_in = np.full(ranks, -1)  # the step in which a rank last received
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
            self._done[:] = 0.0
            self._met = 0.0
            self._computed_ns = since_ns + float((self._need / self._speed).max())
        self._done = np.minimum(self._need, self._done + self._speed * elapsed)
        met_ns = now_ns - max(self._computed_ns, since_ns)
        if met_ns > 0.0 and self._meeting_ns > 0.0:
            self._met = min(1.0, self._met + met_ns / self._meeting_ns)
        self._at_ns = now_ns

    def resume(self, speed: Floats, on: Flags) -> float:
        round_ns = self._message_ns if on.all() else self._trap_ns
        self._speed = speed
        self._meeting_ns = float(self._rounds * round_ns)
        left_ns = float(((self._need - self._done) / speed).max())
        self._computed_ns = self._at_ns + left_ns
        self._ends_ns = self._computed_ns + (1.0 - self._met) * self._meeting_ns
        self._lasts_ns = float((self._need / speed).max()) + self._meeting_ns
        return self._ends_ns + (self._steps - self.step - 1) * self._lasts_ns

    def receives_ns(self, on: Flags) -> Floats:
        computed = self._at_ns + (self._need - self._done) / self._speed
        sent = np.where(on, computed, np.inf)
        if self._pattern is Pattern.ALLTOALL:
            heard = np.full_like(sent, sent.min())
        else:
            heard = np.full_like(sent, np.inf)
            for peer in self._peers:
                np.minimum(heard, sent[peer], out=heard)
        heard += self._message_ns
        next_step = self._ends_ns + self._need / self._speed
        first = np.maximum(computed, heard)
        again = np.where(np.isinf(first), np.inf, np.maximum(first, next_step))
        return np.where(self._heard_in == self.step, again, first)

    def note_heard(self, rank: int) -> None:
        """Its next message is another step's."""
        self._heard_in[rank] = self.step


class Wave:
    """A sweep after the other over a grid of ranks, in blocks.

    The ranks of a diagonal go in step, at the speed of the slowest of them. A diagonal
    is at least a block behind the one before it.
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
        self._done = np.zeros(len(sizes))
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
            self._done[:] = 0.0
            self._delay = np.cumsum(self._hop) - self._hop
            self._compute(now_ns - self._ends_ns - (jumped - 1) * self._lasts_ns)
        self._at_ns = now_ns

    def _compute(self, elapsed_ns: float) -> None:
        alone = self._done + self._speed * np.maximum(0.0, elapsed_ns - self._delay)
        alone = np.minimum(alone, self._full)
        first = int(np.argmax(alone < self._full))  # 0 as well if there is none
        if alone[first] < self._full:
            rest = alone[first:] + self._lead[first:]
            alone[first:] = np.minimum.accumulate(rest) - self._lead[first:]
        self._done = np.maximum(self._done, alone)

    def resume(self, speed: Floats, on: Flags) -> float:
        self._speed = np.minimum.reduceat(speed[self._order], self._bounds)
        every_on = np.logical_and.reduceat(on[self._order], self._bounds)
        message_ns = np.where(every_on, self._message_ns, self._trap_ns)
        #: What a diagonal adds to a block's way to the last one.
        self._hop = self._block / self._speed + message_ns
        tail = np.cumsum(self._hop[::-1])[::-1] - self._hop
        self._delay = self._delays()
        left = self._full - self._done
        ends = np.where(left > 0.0, self._delay + left / self._speed + tail, 0.0)
        self._ends_ns = self._at_ns + float(ends.max())
        fresh = np.cumsum(self._hop) - self._hop + self._full / self._speed + tail
        self._lasts_ns = float(fresh.max())
        return self._ends_ns + (self._steps - self.step - 1) * self._lasts_ns

    def _delays(self) -> Floats:
        """How long until the wave reaches each diagonal."""
        begun = np.flatnonzero(self._done > 0.0)
        front = int(begun[-1]) if len(begun) else 0
        hop = self._hop.copy()
        hop[front] -= min(self._done[front], self._block) / self._speed[front]
        hop[:front] = 0.0
        delay = np.cumsum(hop) - hop
        delay[: front + 1] = 0.0
        return delay

    def receives_ns(self, on: Flags) -> Floats:
        into_block = np.remainder(self._done, self._block)
        of_stage = self._at_ns + self._delay + (self._block - into_block) / self._speed
        of_stage[self._done >= self._full] = self._ends_ns
        heard = np.zeros(len(on), dtype=np.bool_)
        for peer in self._peers:
            heard |= on[peer]
        return np.where(heard, of_stage[self._stage], np.inf)

    def note_heard(self, rank: int) -> None:
        """Every block brings another message."""
