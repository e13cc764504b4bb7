"""Keeps what the controller has confirmed of a job on this node; opens its worlds."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from cosched.cluster.agent.route import Route
from cosched.core.cluster.startup.jobobject import JobObject, decode_world
from cosched.core.cluster.startup.tree import Position
from cosched.core.errors import CoschedError


@dataclass(slots=True)
class ConfirmedJob:
    """A job of which this node has a part."""

    found: JobObject  #: as the controller sent it
    here: str  #: this node
    hosts: tuple[str, ...]  #: all nodes that it has or had, by place; the root is the first
    may_vouch: Callable[[str, int, int], bool]  #: whether a member vouches for these ids
    #: The nodes that the job has now, or gets by a change. Only they may have worlds.
    present: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.present = frozenset(self.hosts)

    def take_nodes(self, hosts: tuple[str, ...], places: Collection[Position]) -> None:
        """Stores the nodes at a change. places: which the job has, or gets. Raises
        CoschedError for a place without a node."""
        if max(places, default=0) >= len(hosts):
            raise CoschedError(f"has no node {max(places)} of the job")
        self.hosts = hosts
        self.present = frozenset(hosts[place] for place in places)

    @property
    def root(self) -> str:
        return self.hosts[0]

    def check_spawner(self, member: str) -> None:
        """Raises CoschedError if a node may start no tasks of the job's user on others."""
        uid, gid = self.found.uid, self.found.gid
        if member != self.here and not self.may_vouch(member, uid, gid):
            raise CoschedError(
                f"{member} may start no tasks of user {uid} on other nodes; add it to "
                "security.root_from in domain.toml; then for each node: cosched cluster "
                "drain NODE --wait, and there: systemctl restart cosched-agent"
            )

    def object_of_world(self, route: Route, data: bytes) -> JobObject:
        """Returns the object of a world that this job has spawned. Only the new programs
        come with it: the user is that of the object that the controller sent. Raises
        CoschedError if the world is not one of this job's root, or has nodes that the job
        has not now: they are no part of this job, and may not start its user's tasks."""
        if route.root != self.root or not set(route.hosts) <= self.present:
            raise CoschedError("is not a world of a job on this node")
        self.check_spawner(route.parent)
        return decode_world(data).complete(self.found)
