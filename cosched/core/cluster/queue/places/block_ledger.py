"""Places live jobs on aligned blocks of nodes, like the partitions of a Blue Gene.

Each job has a block of its own (``blocks``), and runs on the first nodes of it. The other
nodes of the block are idle. Blocks consist of units; a unit is in service once all its
nodes are. So a drained node takes its unit out of service.

Limits: the nodes of the domain stay the same.
"""

from __future__ import annotations

from functools import partial

from cosched.core.cluster.queue.job import Job, JobId
from cosched.core.cluster.queue.nodes import (
    Intervals,
    common,
    count,
    from_numbers,
    numbers,
    union,
    without,
)
from cosched.core.cluster.queue.places.blocks import FreeBlocks
from cosched.core.cluster.queue.places.ledger import Ledger
from cosched.core.cluster.queue.places.place import OVERRUN_NS, Freed, Spot
from cosched.core.errors import CoschedError


class BlockLedger(Ledger):
    """Nodes in units. unit: the nodes of each."""

    def __init__(self, nodes: Intervals, unit: int) -> None:
        super().__init__(nodes, OVERRUN_NS, partial(FreeBlocks, unit=unit))
        self._unit = unit
        self._out: Intervals = ()  # nodes that are out of service themselves
        self._all_free = self._pool.copy()  # as if no job had nodes
        self._adopted: dict[JobId, Intervals] = {}  # the blocks of restored jobs

    def fits_alone(self, job: Job) -> bool:
        return self._all_free.fits(job.size)

    def expected_ns(self, size: int, now_ns: int) -> int | None:
        return super().expected_ns(size, now_ns) if self._all_free.fits(size) else None

    # --- jobs -----------------------------------------------------------------------------

    def occupy(self, job: Job, spot: Spot, now_ns: int) -> Intervals:
        block = super().occupy(job, spot, now_ns)
        return from_numbers(numbers(block)[: job.size])

    def adopt(
        self, job: Job, nodes: Intervals, since_ns: int, halves: Intervals = ()
    ) -> None:
        """Restores a job that runs on these nodes, which may be out of service. After a
        change of the unit its block may overlap another one: then it has what is free of
        it, and the rest once the other job has ended."""
        if common(self._known, nodes) != nodes:
            raise CoschedError(f"job {job.number}: has nodes that are not in this domain")
        out = self._out
        self.admit(out)
        block = self._block_of(nodes)
        free = common(block, self._pool.intervals)
        self._pool.take_exactly(free)
        self._hold(job, count(free), free, since_ns)
        self._adopted[job.number] = block
        self.withdraw(out)

    def release(self, number: JobId) -> Freed | None:
        self._adopted.pop(number, None)
        for heir, block in self._adopted.items():
            self._pass_on(number, heir, common(self._held[number][2], block))
        return super().release(number)

    def _pass_on(self, number: JobId, heir: JobId, nodes: Intervals) -> None:
        """Gives nodes of one job to another one."""
        for owner, change, sign in ((number, without, -1), (heir, union, 1)):
            end_ns = self._held[owner][0]
            width, held = self._forget(owner)
            width += sign * count(common(nodes, self._service))
            self._note(owner, end_ns, width, change(held, nodes))

    def _block_of(self, nodes: Intervals) -> Intervals:
        """Returns the least aligned block that has all these nodes."""
        first, last = nodes[0][0] // self._unit, nodes[-1][1] // self._unit
        width = 1
        while first // width != last // width:
            width *= 2
        begin = first // width * width * self._unit
        end = begin + width * self._unit
        return common(((begin, end - 1),), self._known)

    # --- nodes ----------------------------------------------------------------------------

    def expect(self, most: int) -> None:
        if most > count(self._known):
            raise CoschedError("a domain with blocks expects no more nodes")

    def add(self, nodes: Intervals) -> None:
        if without(nodes, self._known):
            raise CoschedError("a domain with blocks keeps its nodes")
        self.moved += 1

    def remove(self, nodes: Intervals) -> None:
        raise CoschedError("a domain with blocks keeps its nodes")

    def withdraw(self, nodes: Intervals) -> None:
        self._out = union(self._out, common(nodes, self._known))
        gone = common(self._units_of(self._out), self._service)
        super().withdraw(gone)
        self._all_free.take_exactly(gone)

    def admit(self, nodes: Intervals) -> None:
        self._out = without(self._out, nodes)
        back = without(without(self._known, self._units_of(self._out)), self._service)
        super().admit(back)
        self._all_free.give(back)

    def _units_of(self, nodes: Intervals) -> Intervals:
        """Returns all nodes of the units of these nodes."""
        unit = self._unit
        units = {number // unit for number in numbers(nodes)}
        return from_numbers(
            number for each in units for number in range(each * unit, (each + 1) * unit)
        )
