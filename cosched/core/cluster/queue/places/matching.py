"""Chooses the nodes of a job by counts alone (Brelsford et al. 2010, sections 3 and 4.1).

Stage 1 finds the nodes that are *capable* of the job by what seldom changes: features and
the numbers of their resources. It runs once a request, until nodes join or leave. Stage 2
takes capable nodes with enough free *capacity*, and runs again whenever a job ends. Neither
has a loop over tasks, so the work does not grow with the tasks of a node.

A domain as a whole can have counts, too, such as licences.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, TypeVar

from cosched.core.errors import CoschedError

#: Numbers by resource, such as ``{"cores": 8, "ports": 64}``.
Counts = Mapping[str, int]
#: Nothing of any resource.
NO_COUNTS: Counts = MappingProxyType({})
#: The name or the number of a node.
Id = TypeVar("Id", bound=Hashable)


@dataclass(frozen=True, slots=True)
class NodeOffer(Generic[Id]):
    """A node, its features, and how many of each resource it has."""

    name: Id  #: the node's name or number
    totals: Counts  #: how many it has of each resource
    features: frozenset[str] = frozenset()  #: that jobs can require


@dataclass(frozen=True, slots=True)
class Request:
    """The needs of a job: ``tasks`` on each of ``nodes`` nodes, resources for each task."""

    nodes: int  #: how many
    tasks: int  #: on each node
    per_task: tuple[tuple[str, int], ...] = (("cores", 1),)  #: how many of each resource
    features: frozenset[str] = frozenset()  #: that each node must have
    exclusive: bool = False  #: no other job may have a part of its nodes
    in_domain: tuple[tuple[str, int], ...] = ()  #: its needs of the domain's counts

    def __post_init__(self) -> None:
        if self.nodes < 1 or self.tasks < 1 or any(n < 0 for _, n in self.per_task):
            raise CoschedError(
                f"a job of {self.tasks} tasks on each of {self.nodes} nodes: both must be "
                "1 or more, and a task cannot need less than nothing"
            )

    @property
    def on_a_node(self) -> dict[str, int]:
        """The numbers that the job takes on each of its nodes."""
        return {name: number * self.tasks for name, number in self.per_task}


def has(counts: Counts, needed: Counts) -> bool:
    """Returns whether the counts have all that is needed."""
    for name, number in needed.items():  # noqa: SIM110 (twice as fast as all)
        if counts.get(name, 0) < number:
            return False
    return True


@dataclass(slots=True)
class CountedNode(Generic[Id]):
    """A node, and what jobs have left of it."""

    offer: NodeOffer[Id]  #: all that it has
    free: dict[str, int]  #: below 0 if its jobs have more than it offers now
    jobs: int = 0  #: jobs that have a part of it
    exclusive: bool = False  #: its job has it alone

    def copy(self) -> CountedNode[Id]:
        """Returns a copy, for a plan."""
        return CountedNode(self.offer, self.free.copy(), self.jobs, self.exclusive)

    def has_room(self, needed: Counts, exclusive: bool) -> bool:
        """Returns whether the node takes a job now."""
        if self.exclusive or (exclusive and self.jobs):
            return False
        return has(self.free, needed)

    def add_job(self, needed: Counts, exclusive: bool) -> None:
        """Counts a job on the node."""
        free = self.free
        for name, number in needed.items():
            free[name] = free.get(name, 0) - number
        self.jobs += 1
        self.exclusive = exclusive

    def remove_job(self, needed: Counts) -> None:
        """Frees what a job had of the node."""
        free = self.free
        for name, number in needed.items():
            free[name] += number
        self.jobs -= 1
        self.exclusive = False

    def change(self, offer: NodeOffer[Id]) -> None:
        """Takes another offer; its jobs keep what they have."""
        for name in {*self.offer.totals, *offer.totals}:
            more = offer.totals.get(name, 0) - self.offer.totals.get(name, 0)
            self.free[name] = self.free.get(name, 0) + more
        self.offer = offer


@dataclass(frozen=True, slots=True)
class _Taken(Generic[Id]):
    nodes: tuple[Id, ...]
    request: Request


@dataclass(slots=True)
class Matcher(Generic[Id]):
    """The counts of a domain. Nodes are taken in the order in which they joined.

    Counts alone decide only where a unit serves one job. Where jobs share units, a node may
    have enough of them in all and too few different ones for one more job. So a live domain
    counts the CPUs of its nodes apart (``cpu_board``).

    in_domain: the counts of the whole domain.
    """

    in_domain: Counts = field(default_factory=dict)  #: its counts
    _nodes: dict[Id, CountedNode[Id]] = field(default_factory=dict)
    _taken: dict[int, _Taken[Id]] = field(default_factory=dict)
    _capable: dict[Request, tuple[CountedNode[Id], ...]] = field(default_factory=dict)

    def copy(self) -> Matcher[Id]:
        """Returns a copy, for a plan."""
        nodes = {name: node.copy() for name, node in self._nodes.items()}
        return Matcher(self.in_domain, nodes, self._taken.copy())

    def __contains__(self, name: Id) -> bool:
        return name in self._nodes

    # --- nodes ----------------------------------------------------------------------------

    def join(self, offer: NodeOffer[Id]) -> None:
        """Adds a node."""
        if offer.name in self._nodes:
            raise CoschedError(f"node {offer.name}: is in the domain already")
        self._nodes[offer.name] = CountedNode(offer, dict(offer.totals))
        self._capable.clear()

    def change(self, offer: NodeOffer[Id]) -> None:
        """Takes another offer of a node; its jobs keep what they have."""
        self._node(offer.name).change(offer)
        self._capable.clear()

    def free(self, name: Id) -> Counts:
        """Returns the free numbers of a node."""
        return dict(self._node(name).free)

    @property
    def free_in_domain(self) -> Counts:
        """Returns what is free of the domain's counts; below 0 if jobs have more."""
        free = dict(self.in_domain)
        for taken in self._taken.values():
            for name, number in taken.request.in_domain:
                free[name] = free.get(name, 0) - number
        return free

    # --- the choice -----------------------------------------------------------------------

    def capable_nodes(self, request: Request) -> tuple[CountedNode[Id], ...]:
        """Stage 1: returns the nodes that could run the job if all were free."""
        if request not in self._capable:
            needed = request.on_a_node
            self._capable[request] = tuple(
                node
                for node in self._nodes.values()
                if request.features <= node.offer.features
                and has(node.offer.totals, needed)
            )
        return self._capable[request]

    def capable(self, request: Request) -> tuple[Id, ...]:
        """Returns the names of the capable nodes."""
        return tuple(node.offer.name for node in self.capable_nodes(request))

    def feasible(self, request: Request) -> bool:
        """Returns whether the job could ever run on the present nodes."""
        enough = has(self.in_domain, dict(request.in_domain))
        return enough and len(self.capable_nodes(request)) >= request.nodes

    def with_room(self, request: Request) -> Iterator[Id]:
        """Stage 2: yields the capable nodes that take the job now; none if the domain's own
        counts do not suffice."""
        if request.in_domain and not has(self.free_in_domain, dict(request.in_domain)):
            return
        needed = request.on_a_node
        for node in self.capable_nodes(request):
            if node.has_room(needed, request.exclusive):
                yield node.offer.name

    def select(self, request: Request) -> tuple[Id, ...] | None:
        """Returns nodes that can run the job now; None if there are too few."""
        found: list[Id] = []
        for name in self.with_room(request):
            found.append(name)
            if len(found) == request.nodes:
                return tuple(found)
        return None

    # --- jobs -----------------------------------------------------------------------------

    def counts_job(self, job: int) -> bool:
        """Returns whether a job is counted."""
        return job in self._taken

    def take(self, job: int, nodes: Iterable[Id], request: Request) -> None:
        """Counts a job on selected nodes. The nodes that it had before a restart may have
        less than it needs now."""
        if job in self._taken:
            raise CoschedError(f"job {job}: has nodes already")
        needed = request.on_a_node
        chosen = [self._node(name) for name in nodes]
        for node in chosen:
            node.add_job(needed, request.exclusive)
        names = tuple(node.offer.name for node in chosen)
        self._taken[job] = _Taken(names, request)

    def release(self, job: int) -> tuple[Id, ...]:
        """Frees the counts of a job; returns its nodes."""
        taken = self._taken.pop(job, None)
        if taken is None:
            raise CoschedError(f"job {job}: has no nodes")
        needed = taken.request.on_a_node
        for name in taken.nodes:
            self._nodes[name].remove_job(needed)
        return taken.nodes

    def _node(self, name: Id) -> CountedNode[Id]:
        if name not in self._nodes:
            raise CoschedError(f"node {name}: is not in the domain")
        return self._nodes[name]
