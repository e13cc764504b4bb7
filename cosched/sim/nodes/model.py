"""Describes the jobs on simulated nodes, the nodes and their network. Pure data.

A job has a rank on each of its nodes. The rank stands for all tasks of the job there, since
a node schedules them together. A rank computes for its grain, then exchanges messages, and
so on. The pattern gives its peers:

bulk        all ranks meet after each grain (an allreduce by recursive doubling): rank r
            receives from r xor 1, r xor 2, r xor 4, ...
alltoall    the same, but each rank receives from every other one
wavefront   ranks stand on a grid that is as square as their number allows; a sweep of
            ``BLOCKS`` grains runs from one corner to the opposite one, block after block as
            in a pipeline, and sweeps follow each other (NPB LU, Sweep3D)
none        nothing before the end
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isqrt

import numpy as np
import numpy.typing as npt

from cosched.core.errors import CoschedError
from cosched.core.node.periods import QUOTA_PERIOD_NS
from cosched.core.units import NS_PER_MS, NS_PER_S, NS_PER_US

#: Grains of a wavefront's sweep.
BLOCKS = 32

Indices = npt.NDArray[np.int64]


class Pattern(str, Enum):
    """Which ranks wait for which."""

    BULK = "bulk"
    WAVEFRONT = "wavefront"
    ALLTOALL = "alltoall"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Program:
    """A job on simulated nodes."""

    name: str  #: unique among the jobs of a run
    pattern: Pattern  #: which ranks wait for which
    grain_ns: int  #: CPU time of a rank between two messages
    work_ns: int  #: CPU time of each rank, without the launch
    submit_ns: int = 0  #: virtual time from the start of the run
    #: Ranks need up to this share less than the slowest one (bulk, alltoall).
    imbalance: float = 0.0
    first: int = 0  #: the place of its first node, from 0
    count: int = 0  #: the number of its nodes; 0: all from the first on
    #: CPU time on each of its nodes before its ranks all meet for the first time
    #: (MPI_Init).
    launch_ns: int = 0
    message_ns: int = 0  #: as in Cluster; 0: the cluster's
    #: How often a message goes back and forth: 1, or 3 for a large one (request, consent,
    #: data).
    legs: int = 1

    def __post_init__(self) -> None:
        if self.grain_ns <= 0 or self.work_ns <= 0:
            raise CoschedError(f"job '{self.name}': grain and work must be above 0")
        if not 0.0 <= self.imbalance < 1.0:
            raise CoschedError(f"job '{self.name}': imbalance must be from 0 to below 1")
        if self.launch_ns < 0 or self.message_ns < 0 or self.legs < 1:
            raise CoschedError(
                f"job '{self.name}': launch, message: not below 0; legs: not below 1"
            )

    @property
    def step_ns(self) -> int:
        """The CPU time of a rank from one point where all meet to the next."""
        if self.pattern is Pattern.NONE:
            return self.work_ns
        return self.grain_ns * (BLOCKS if self.pattern is Pattern.WAVEFRONT else 1)

    @property
    def steps(self) -> int:
        """How often all ranks meet."""
        return max(1, round(self.work_ns / self.step_ns))

    def message_of(self, cluster: Cluster) -> int:
        """Returns the time of one of its messages there, in ns."""
        return self.message_ns or cluster.message_ns


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes of one CPU each, and the times of events there."""

    nodes: int  #: the number of nodes
    #: From a message's sending until the peer goes on, both scheduled.
    message_ns: int = 20 * NS_PER_US
    #: An unscheduled rank that waits looks for messages this often.
    trap_ns: int = NS_PER_MS
    switch_ns: int = NS_PER_MS  #: from a decision until the next job computes
    clock_ns: int = 100 * NS_PER_US  #: standard deviation of the nodes' clocks
    late_ns: int = 100 * NS_PER_US  #: mean lateness of a timer; 0: none is late
    #: A job's ranks register within this time of each other.
    spread_ns: int = 20 * NS_PER_MS
    #: The others get the unused time of the scheduled job (proportional shares); False: it
    #: is lost (strict shares).
    fills: bool = True
    #: The kernel's tick; only then does the kernel take the CPU from a rank that still
    #: computes.
    quantum_ns: int = 4 * NS_PER_MS
    base_ns: int = 2_800 * NS_PER_US  #: the least run of a rank (sched/base_slice_ns)
    #: The nodes' ticks come at the same moments, as on the CPUs of one machine. The nodes
    #: of a lab are such CPUs.
    same_ticks: bool = False
    #: The nodes' timers begin at any time within this time before the first job.
    timers_ns: int = 3600 * NS_PER_S
    #: Under strict shares an unscheduled class gets its share once in this time.
    period_ns: int = QUOTA_PERIOD_NS

    def nodes_of(self, program: Program) -> range:
        """Returns the nodes of the job."""
        last = program.first + (program.count or self.nodes - program.first)
        if not 0 <= program.first < last <= self.nodes:
            raise CoschedError(
                f"job '{program.name}': its nodes {program.first} to {last - 1} are not "
                f"all among the {self.nodes}"
            )
        return range(program.first, last)


def rounds(ranks: int) -> int:
    """Returns how many messages in sequence connect all ranks."""
    return (ranks - 1).bit_length()


def grid(ranks: int) -> tuple[int, int]:
    """The most nearly square grid of so many ranks, the shorter side first."""
    side = next(side for side in range(isqrt(ranks), 0, -1) if ranks % side == 0)
    return side, ranks // side


def diagonals(ranks: int) -> Indices:
    """Returns for each rank of a grid its distance from the corner where sweeps begin."""
    rows, columns = grid(ranks)
    return np.add.outer(np.arange(rows), np.arange(columns)).ravel()


def senders(pattern: Pattern, ranks: int) -> list[Indices]:
    """Returns the peers that ranks receive from: arrays with a peer for each rank.

    A rank without a peer has itself. alltoall needs no list.
    """
    own = np.arange(ranks)
    if pattern is Pattern.BULK:
        peers = [own ^ (1 << bit) for bit in range(rounds(ranks))]
        return [np.where(peer < ranks, peer, own) for peer in peers]
    if pattern is Pattern.WAVEFRONT:
        rows, columns = grid(ranks)
        row, column = own // columns, own % columns
        return [
            np.where(row > 0, own - columns, own),
            np.where(row < rows - 1, own + columns, own),
            np.where(column > 0, own - 1, own),
            np.where(column < columns - 1, own + 1, own),
        ]
    return []
