"""Describes the tree of one world of a start, as one of its nodes sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cosched.cluster.messages import Chunk
from cosched.core.cluster.queue.nodes import Intervals, count, numbers
from cosched.core.cluster.startup.tree import Position, Tree
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER


@dataclass(frozen=True, slots=True)
class Route:
    """The tree of one world of a start."""

    job: int  #: the job's number
    start: int  #: how often the job was started
    place: Position  #: this node's number in the tree
    nodes: Intervals  #: by their numbers
    hosts: tuple[str, ...]  #: the nodes' names, by place
    tree: Tree  #: numbers the places
    exchange: str  #: the design of the table exchange
    world: int  #: 0, or the number of a spawned world
    root: str  #: the job's root, which is also the root of world 0

    @property
    def parent(self) -> str:
        """The name of the parent: for the job's root the controller, for another world's
        root the job's root."""
        above = self.tree.parent(self.place)
        if above is not None:
            return self.hosts[above]
        return self.root if self.world else CONTROLLER

    @property
    def heads_job(self) -> bool:
        """Whether this is the job's root."""
        return self.place == 0 and self.world == 0

    @property
    def children(self) -> tuple[Position, ...]:
        return tuple(self.tree.children(self.place))

    def place_of(self, host: str) -> Position:
        """Returns the neighbour's place. Raises CoschedError for another member."""
        for place in self.tree.neighbours(self.place):
            if self.hosts[place] == host:
                return place
        raise CoschedError(f"job {self.job}: {host} is no neighbour in its tree")

    def expect_parent(self, host: str) -> None:
        """Raises CoschedError for any member but the parent and the controller."""
        if host not in (self.parent, CONTROLLER):
            raise CoschedError(f"job {self.job}: {host} is not this node's parent")

    def expect_root(self, host: str) -> None:
        """Raises CoschedError for any member but the root."""
        if host != self.root:
            raise CoschedError(f"job {self.job}: {host} is not its root")

    def expect_child(self, host: str) -> Position:
        """Returns the child's place. Raises CoschedError for another member."""
        place = self.place_of(host)
        if place not in self.children:
            raise CoschedError(f"job {self.job}: {host} is not below this node")
        return place

    def expect_below(self, host: str, place: Position) -> None:
        """Raises CoschedError unless ``place`` is in the subtree of the child ``host``."""
        self.expect_child(host)
        if self.towards(place) != host:
            raise CoschedError(f"job {self.job}: node {place} is not below {host}")

    def towards(self, place: Position) -> str:
        """Returns the child whose subtree has ``place``."""
        while (above := self.tree.parent(place)) != self.place:
            if above is None:
                raise CoschedError(f"job {self.job}: node {place} is not below this one")
            place = above
        return self.hosts[place]


def route_of(chunk: Chunk, names: Mapping[int, str]) -> Route:
    """Returns the tree that a chunk describes. names: the domain's nodes by number. Raises
    CoschedError for a tree that cannot be."""
    if count(chunk.nodes) > len(names):  # before they are listed: it costs memory
        raise CoschedError(f"job {chunk.job}: has a node twice")
    hosts = names_of(chunk.nodes, names, chunk.job)
    (root,) = names_of(((chunk.root, chunk.root),), names, chunk.job)
    if len(set(hosts)) < len(hosts):
        raise CoschedError(f"job {chunk.job}: has a node twice")
    tree = Tree(len(hosts), chunk.arity)
    if chunk.place >= len(hosts):
        raise CoschedError(f"job {chunk.job}: has no node {chunk.place}")
    return Route(
        chunk.job,
        chunk.start,
        chunk.place,
        chunk.nodes,
        hosts,
        tree,
        chunk.exchange,
        chunk.world,
        root if chunk.world else hosts[0],
    )


def names_of(nodes: Intervals, names: Mapping[int, str], job: int) -> tuple[str, ...]:
    """Returns the names of a job's nodes by place; a node that came back has several
    places. names: the domain's nodes by number. Raises CoschedError for a node that the
    domain lacks."""
    last_of_all = max(names, default=-1)
    within = all(first <= last <= last_of_all for first, last in nodes)
    places = numbers(nodes) if within else []
    if not within or any(number not in names for number in places):
        raise CoschedError(f"job {job}: has nodes that the domain lacks")
    return tuple(names[number] for number in places)
