"""DT, data traffic: features flow along the arcs of a graph and are combined at its nodes
(NPB 3, program DT).

A source draws a feature. A comparator combines those that arrive, and a sink reduces them
to a checksum. ``graphs`` makes the graphs: BH, WH and SH. Any number of ranks: node n of a
graph is on rank n modulo the ranks, so with as many ranks as nodes each has one, as in the
published program, which allows no fewer. A feature that stays on its rank is no message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.npb.classes import DT, DataTraffic
from benchmarks.npb.graphs import GRAPHS, Node
from benchmarks.npb.random import MODULUS, SEED
from benchmarks.npb.report import Outcome, checks

if TYPE_CHECKING:
    from benchmarks.npb.kernels import Kernels
    from benchmarks.npb.link import Link

VALUES = 4  # numbers of a sample
#: A factor and a modulus for each number of a sample.
GENERATORS = ((2, 421), (2, 419), (2, 1427), (5, 3527))
#: The published program takes its class S, the letter, for all classes.
LETTER = ord("S")
LARGEST_EXPONENT = 3141592
Feature = NDArray[np.float64]
#: Is called after each node, with the bytes of features that it has read and written.
Moved = Callable[[int], None]


def run(link: Link, kernels: Kernels, problem: str, graph: str) -> Outcome:
    """Class ``problem`` of a graph on all of ``link``."""
    size = DT[problem]
    traffic = DataFlow(link, kernels, size, graph)
    link.barrier()
    start = link.now()
    checksum = traffic.flow()
    seconds = link.largest(link.now() - start)
    return Outcome(
        size=f"{traffic.nodes} nodes, {traffic.arcs} arcs of {size.samples} samples",
        iterations=1,
        seconds=seconds,
        operations=float(size.samples * VALUES * traffic.arcs),
        checks=checks(("checksum",), (checksum,), (size.checksums[graph],), 0.0),
    )


class DataFlow:
    """The nodes of a graph that are on this rank."""

    def __init__(
        self,
        link: Link,
        kernels: Kernels,
        size: DataTraffic,
        graph: str,
        moved: Moved = lambda _: None,
    ) -> None:
        self._link, self._kernels, self._size, self._moved = link, kernels, size, moved
        self._touched = 0  # bytes of features, by the present node
        self._graph = GRAPHS[graph](size.sources)
        self.nodes = len(self._graph)
        self.arcs = sum(len(node.tails) for node in self._graph)
        self._sent: list[tuple[Any, NDArray[Any]]] = []
        #: Features that stay here, by the node that made them and the one that takes them.
        self._stayed: dict[tuple[int, int], Feature] = {}

    def flow(self) -> float:
        """Lets all features flow once; returns the checksum of all sinks."""
        total = 0.0
        for number, node in enumerate(self._graph):
            if self._rank_of(number) != self._link.rank:
                continue
            self._touched = 0
            if node.heads:
                feature = (
                    self._combined(number, node) if node.tails else self._drawn(number)
                )
                for head in node.heads:
                    self._pass_on(feature, number, head)
            else:
                total += self._reduced(number, node)
            self._moved(self._touched)
        for wait, _ in self._sent:
            wait.Wait()
        self._sent.clear()
        return float(self._link.sum(total))

    def _rank_of(self, node: int) -> int:
        return node % self._link.ranks

    def _drawn(self, number: int) -> Feature:
        """The feature of a source."""
        length = VALUES * samples_of(self._size, number)
        exponent = length * (number + 1) % LARGEST_EXPONENT
        states = np.array([pow(f, exponent, m) for f, m in GENERATORS], np.int32)
        feature = np.empty(length)
        self._kernels.lib.npb_dt_draw(
            length, self._kernels.ints(states), self._kernels.doubles(feature)
        )
        self._touched += feature.nbytes
        return feature

    def _combined(self, number: int, node: Node) -> Feature:
        """The feature that a comparator makes of all that arrive."""
        lib, doubles = self._kernels.lib, self._kernels.doubles
        weight = (number + 1) / (number + 2)
        # The published program does not set this memory; its checksums want zeros.
        mine = np.zeros(VALUES * self._size.samples)
        for tail in node.tails:
            other = self._arrived(tail, number)
            length = max(len(mine), len(other))
            mine, other = self._stretched(mine, length), self._stretched(other, length)
            lib.npb_dt_filter(length, weight, doubles(mine), doubles(other))
            self._touched += 2 * mine.nbytes + other.nbytes
        lib.npb_dt_divide(len(mine), len(node.tails), doubles(mine))
        self._touched += 2 * mine.nbytes
        return mine

    def _stretched(self, feature: Feature, length: int) -> Feature:
        if len(feature) == length:
            return feature
        stretched = np.empty(length)
        doubles = self._kernels.doubles
        self._kernels.lib.npb_dt_resample(
            len(feature), doubles(feature), length, doubles(stretched)
        )
        self._touched += feature.nbytes + stretched.nbytes
        return stretched

    def _reduced(self, number: int, node: Node) -> float:
        """The checksum of a sink."""
        total = 0
        for tail in node.tails:
            feature = self._arrived(tail, number)
            check = self._kernels.lib.npb_dt_check(
                len(feature), self._kernels.doubles(feature)
            )
            total += int((number + 1) * check)
            self._touched += feature.nbytes
        return float((number + 1) * (total // len(node.tails)))

    def _pass_on(self, feature: Feature, tail: int, head: int) -> None:
        """Sends a feature along an arc: its length, and its numbers."""
        rank = self._rank_of(head)
        if rank == self._link.rank:
            self._stayed[tail, head] = feature
            return
        # Each node receives in the order of the graph: so no send may wait for its end.
        tag = self._tag(tail, head)
        for part in (np.array([len(feature)], np.int32), feature):
            self._sent.append((self._link.start_send(part, rank, tag), part))
        self._touched += feature.nbytes

    def _arrived(self, tail: int, head: int) -> Feature:
        """Returns the feature of an arc; nothing may change it."""
        rank = self._rank_of(tail)
        if rank == self._link.rank:
            return self._stayed.pop((tail, head))
        length, tag = np.empty(1, np.int32), self._tag(tail, head)
        self._link.receive(length, rank, tag)
        feature = np.empty(int(length[0]))
        self._link.receive(feature, rank, tag)
        self._touched += feature.nbytes
        return feature

    def _tag(self, tail: int, head: int) -> int:
        return tail * self.nodes + head


def samples_of(size: DataTraffic, source: int) -> int:
    """Returns how many samples a source makes."""
    factor = 2 * source + 1
    fraction = SEED * factor % MODULUS / MODULUS
    base = int(1 / fraction) * LETTER
    power = _wrapped_power(base, factor, 2 * size.deviation)
    return size.samples - size.deviation + abs(power)


def _wrapped_power(base: int, exponent: int, modulus: int) -> int:
    """Returns a remainder of the power, with a sign.

    The published program's products wrap at 32 bits, and C gives a remainder the sign of
    the dividend. The checksums of classes A and B depend on that.
    """
    square, rest = base, 1
    while exponent > 1:
        if exponent % 2:
            rest = _wrapped_remainder(rest * square, modulus)
            exponent -= 1
        else:
            square = _wrapped_remainder(square * square, modulus)
            exponent //= 2
    return _wrapped_remainder(rest * square, modulus)


def _wrapped_remainder(product: int, modulus: int) -> int:
    signed = (product + 2**31) % 2**32 - 2**31
    return abs(signed) % modulus * (-1 if signed < 0 else 1)
