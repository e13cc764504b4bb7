"""Chooses what a job gets, by the old and by the new design of the central manager.

``CentralManager`` is the old design (sections 2 and 3), for comparison: it assigns units to
each task of each node, and makes the network table of all tasks. ``PartitionedManager`` is
the new one (section 4.1): it counts, and the nodes do the rest. Both choose the same nodes,
and the old one assigns as the agents do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.experiments.startup.placement import (
    WINDOWS,
    CentralObject,
    Placement,
    Submission,
    node_table,
    pack_units,
    unpack_units,
)
from cosched.core.cluster.queue.nodes import from_numbers, numbers
from cosched.core.cluster.queue.places.matching import Matcher, NodeOffer, Request
from cosched.core.cluster.startup.assignment import Pool, Units
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class PartitionedManager:
    """Decides by counts."""

    arity: int = 2  #: the children of a node in the tree of a job
    _matcher: Matcher[str] = field(default_factory=Matcher)
    _numbers: dict[str, int] = field(default_factory=dict)
    _placements: dict[int, Placement] = field(default_factory=dict)

    def join(self, number: int, offer: NodeOffer[str]) -> None:
        """Adds a node with its number."""
        self._matcher.join(offer)
        self._numbers[offer.name] = number

    def place(self, job: Submission) -> Placement | None:
        """Returns the nodes of a job that can start now, and counts it; None if it waits.

        Raises CoschedError if it could never start.
        """
        found = self._matcher.select(job.request)
        if found is None:
            if not self._matcher.feasible(job.request):
                raise CoschedError(
                    f"job {job.number}: needs {job.request.nodes} capable nodes; there are "
                    f"{len(self._matcher.capable(job.request))}"
                )
            return None
        self._matcher.take(job.number, found, job.request)
        nodes = from_numbers(map(self._numbers.__getitem__, found))
        made = self._placements[job.number] = Placement(job, nodes, self.arity)
        return made

    def release(self, number: int) -> None:
        """Frees what a job has."""
        self._matcher.release(number)
        del self._placements[number]


@dataclass(slots=True)
class CentralManager:
    """Decides by counts, and then assigns the units of all tasks."""

    arity: int = 2  #: the children of a node in the tree
    _counts: PartitionedManager = field(init=False)
    _pools: dict[int, dict[str, Pool]] = field(default_factory=dict)
    _objects: dict[int, tuple[Placement, CentralObject]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._counts = PartitionedManager(self.arity)

    def join(
        self,
        number: int,
        name: str,
        units: Mapping[str, Units],
        features: frozenset[str] = frozenset(),
    ) -> None:
        """Adds a node with its number and its units."""
        pools = {what: Pool(of) for what, of in units.items()}
        totals = {what: pool.total for what, pool in pools.items()}
        self._counts.join(number, NodeOffer(name, totals, features))
        self._pools[number] = pools

    def place(self, job: Submission) -> CentralObject | None:
        """Returns the object of a job that can start now, and counts it; None if it waits.

        Raises CoschedError if it could never start.
        """
        chosen = self._counts.place(job)
        if chosen is None:
            return None
        units = {}
        tables = []
        for place, number in enumerate(numbers(chosen.nodes)):
            taken = _take(self._pools[number], job.request)
            units[place] = pack_units([unit for each in taken.values() for unit in each])
            windows = taken.get(WINDOWS)
            if windows:
                step = len(windows) // job.request.tasks  # of several, the first
                tables.append(node_table(chosen, place, windows[::step]))
        needs = job.request.per_task
        made = CentralObject(chosen.object(), self.arity, needs, units, b"".join(tables))
        self._objects[job.number] = (chosen, made)
        return made

    def release(self, number: int) -> None:
        """Frees what a job has."""
        self._counts.release(number)
        placed, made = self._objects.pop(number)
        request = placed.job.request
        for place, packed in made.units.items():
            flat = unpack_units(packed)
            at = 0
            for name, each in request.per_task:
                end = at + each * request.tasks
                self._pools[placed.node_at(place)][name].use(flat[at:end], -1)
                at = end


def _take(pools: Mapping[str, Pool], request: Request) -> dict[str, list[int]]:
    """Takes the units of a job from a node; returns them by resource, task after task."""
    taken = {}
    for name, number in request.per_task:
        pool = pools[name]
        units = sorted(pool.free()[: number * request.tasks])
        pool.use(units)
        taken[name] = units
    return taken
