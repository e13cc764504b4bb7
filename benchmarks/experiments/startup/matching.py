"""Chooses the nodes of a job by counts alone (sections 3 and 4.1).

Stage 1 finds the nodes that are *capable* of the job by what never changes: labels and the
numbers of their resources. It runs once a request, until nodes join or leave. Stage 2 takes
capable nodes with enough free *capacity*, and runs again whenever a job ends. Neither has a
loop over tasks, so the work does not grow with the tasks of a node.

Workers can share the work of stage 2 (section 4.2, Fig. 6). Each matches blocks of nodes
and changes nothing. The master joins their results in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cosched.core.errors import CoschedError

#: Numbers by resource, such as ``{"cores": 8, "ports": 64}``.
Counts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """A node, its labels, and how many of each resource it has."""

    name: str  #: the node's name
    totals: Counts  #: how many it has of each resource
    labels: frozenset[str] = frozenset()  #: that jobs can require


@dataclass(frozen=True, slots=True)
class Request:
    """The needs of a job: ``tasks`` on each of ``nodes`` nodes, resources for each task."""

    nodes: int  #: how many
    tasks: int  #: on each node
    per_task: tuple[tuple[str, int], ...] = (("cores", 1),)  #: how many of each resource
    labels: frozenset[str] = frozenset()  #: that each node must have
    exclusive: bool = False  #: no other job may have a part of its nodes

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
class _Node:
    offer: NodeOffer
    free: dict[str, int]
    jobs: int = 0  #: jobs that have a part of it
    exclusive: bool = False
    drained: bool = False

    def has_room(self, needed: Counts, exclusive: bool) -> bool:
        if self.drained or self.exclusive or (exclusive and self.jobs):
            return False
        return has(self.free, needed)

    def add_job(self, needed: Counts, exclusive: bool) -> None:
        free = self.free
        for name, number in needed.items():
            free[name] = free.get(name, 0) - number
        self.jobs += 1
        self.exclusive = exclusive

    def remove_job(self, needed: Counts) -> None:
        free = self.free
        for name, number in needed.items():
            free[name] += number
        self.jobs -= 1
        self.exclusive = False


@dataclass(frozen=True, slots=True)
class Block:
    """Some nodes that a worker matches with a request."""

    _nodes: tuple[_Node, ...]
    _request: Request

    def match(self) -> tuple[str, ...]:
        """Returns its nodes that can run the job now."""
        needed, exclusive = self._request.on_a_node, self._request.exclusive
        return tuple(
            node.offer.name for node in self._nodes if node.has_room(needed, exclusive)
        )


def first_of(matches: Iterable[tuple[str, ...]], nodes: int) -> tuple[str, ...] | None:
    """Returns the first nodes of all blocks, in their order; None if there are too few."""
    found: list[str] = []
    for match in matches:
        found += match
        if len(found) >= nodes:
            return tuple(found[:nodes])
    return None


@dataclass(frozen=True, slots=True)
class _Taken:
    nodes: tuple[str, ...]
    request: Request


@dataclass(slots=True)
class Matcher:
    """The counts of a domain. Nodes are taken in the order in which they joined.

    Counts alone decide only where a unit serves one job. Where jobs share units, a node may
    have enough of them in all and too few different ones for one more job. A live domain
    shares its nodes by rows instead (``queue.rows``).
    """

    _nodes: dict[str, _Node] = field(default_factory=dict)
    _taken: dict[int, _Taken] = field(default_factory=dict)
    _capable: dict[Request, tuple[_Node, ...]] = field(default_factory=dict)

    def join(self, offer: NodeOffer) -> None:
        """Adds a node. A node that returns must have left before."""
        if offer.name in self._nodes:
            raise CoschedError(f"node {offer.name}: is in the domain already")
        self._nodes[offer.name] = _Node(offer, dict(offer.totals))
        self._capable.clear()

    def leave(self, name: str) -> None:
        """Removes a node; its jobs must have been released."""
        if self._node(name).jobs:
            raise CoschedError(f"node {name}: jobs still have a part of it")
        del self._nodes[name]
        self._capable.clear()

    def drain(self, name: str, *, drained: bool = True) -> None:
        """Keeps new jobs away from a node, or lets them come again."""
        self._node(name).drained = drained

    def capable(self, request: Request) -> tuple[str, ...]:
        """Stage 1: returns the nodes that could run the job if all were free."""
        return tuple(node.offer.name for node in self._find_capable(request))

    def feasible(self, request: Request) -> bool:
        """Returns whether the job could ever run on the present nodes."""
        return len(self._find_capable(request)) >= request.nodes

    def select(self, request: Request) -> tuple[str, ...] | None:
        """Stage 2: returns nodes that can run the job now; None if there are too few."""
        needed = request.on_a_node
        found: list[str] = []
        for node in self._find_capable(request):
            if node.has_room(needed, request.exclusive):
                found.append(node.offer.name)
                if len(found) == request.nodes:
                    return tuple(found)
        return None

    def blocks(self, request: Request, size: int) -> list[Block]:
        """Returns stage 2 as blocks of at most ``size`` nodes; ``first_of`` ends it."""
        capable = self._find_capable(request)
        return [
            Block(capable[at : at + size], request) for at in range(0, len(capable), size)
        ]

    def take(self, job: int, nodes: tuple[str, ...], request: Request) -> None:
        """Counts a job on selected nodes, or on those that it had before a restart."""
        if job in self._taken:
            raise CoschedError(f"job {job}: has nodes already")
        needed = request.on_a_node
        chosen = [self._node(name) for name in nodes]
        for node in chosen:
            if not node.has_room(needed, request.exclusive):
                raise CoschedError(f"job {job}: node {node.offer.name} has no room for it")
        for node in chosen:
            node.add_job(needed, request.exclusive)
        self._taken[job] = _Taken(nodes, request)

    def release(self, job: int) -> tuple[str, ...]:
        """Frees the counts of a job; returns its nodes."""
        taken = self._taken.pop(job, None)
        if taken is None:
            raise CoschedError(f"job {job}: has no nodes")
        needed = taken.request.on_a_node
        for name in taken.nodes:
            self._nodes[name].remove_job(needed)
        return taken.nodes

    def free(self, name: str) -> Counts:
        """Returns the free numbers of a node."""
        return dict(self._node(name).free)

    def _node(self, name: str) -> _Node:
        if name not in self._nodes:
            raise CoschedError(f"node {name}: is not in the domain")
        return self._nodes[name]

    def _find_capable(self, request: Request) -> tuple[_Node, ...]:
        if request not in self._capable:
            needed = request.on_a_node
            self._capable[request] = tuple(
                node
                for node in self._nodes.values()
                if request.labels <= node.offer.labels and has(node.offer.totals, needed)
            )
        return self._capable[request]
