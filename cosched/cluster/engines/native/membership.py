"""Lets nodes come into a domain that is up, and leave it.

domain.toml has the nodes that are wanted. A node that it lacks leaves: it gets no more
jobs, and goes once it has none. ``numbers`` stores each step before it is used, so a
controller that ends in the middle goes on in its next life. All agents get each change
(``Roster``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cosched.cluster.engines.native.jobs import Jobs
from cosched.cluster.engines.native.node_entries import NodeEntries, NodeEntry, NodeState
from cosched.cluster.engines.native.numbers import save_numbering
from cosched.cluster.keys import KeyRing, former_keys
from cosched.cluster.links import Former, Links
from cosched.cluster.messages import Leave, Refused, Roster, RosterNode, encode
from cosched.cluster.paths import DomainPaths
from cosched.core.cluster.numbering import Numbering
from cosched.core.errors import CoschedError, must_succeed
from cosched.core.names import CONTROLLER

#: Why an agent is refused whose node was removed.
REMOVED = "its node is not in [nodes] of the controller's domain.toml"
_LEAVES = "it leaves the domain"


@dataclass(slots=True)
class _Parting:
    """A node that was removed, until it has confirmed that. until_ns: how long that may
    take, by a monotonic clock. over: set after that."""

    address: str
    until_ns: int
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Membership:
    """The nodes of a domain that is up, as they come and go.

    keys: of all nodes, also of those that leave. on_change: takes the addresses of all
    nodes by name. on_gone: takes the name of a node that has gone. log: takes one line
    about what happened.
    """

    def __init__(
        self,
        paths: DomainPaths,
        keys: KeyRing,
        members: NodeEntries,
        links: Links,
        jobs: Jobs,
        on_change: Callable[[Mapping[str, str]], None],
        on_gone: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self._paths = paths
        self._members = members
        self._links = links
        self._jobs = jobs
        self._on_change = on_change
        self._on_gone = on_gone
        self._log = log
        self._controller = {CONTROLLER: keys.own_public}
        self._public = {name: keys.public[name] for name in members.by_name}
        self._parting: dict[str, _Parting] = {}  # by name
        self._waits: dict[int, list[asyncio.Future[None]]] = {}  # by number of the node

    @property
    def roster(self) -> Roster:
        """The nodes of the domain, for its agents."""
        numbering = self._members.numbering
        nodes = (
            RosterNode(node.number, node.name, node.address, self._public[node.name])
            for node in numbering.nodes
        )
        return Roster(numbering.version, tuple(nodes))

    def planned(self, wanted: Mapping[str, str]) -> Numbering:
        """Returns the nodes that the domain has after a change of domain.toml. Raises
        CoschedError for a change that a running domain cannot take."""
        addresses = self._members.numbering.addresses
        if self._members.in_blocks and set(wanted) != set(addresses):
            raise CoschedError(
                "nodes: a domain with blocks keeps its nodes; end it, and start it with "
                "the others"
            )
        for name, address in wanted.items():
            if addresses.get(name, address) != address:
                raise CoschedError(
                    f"nodes.{name}: has another address now; remove the node, and add it "
                    "again"
                )
            member = self._members.by_name.get(name)
            if name in self._parting or (member is not None and member.leaving):
                raise CoschedError(f"node {name}: is leaving the domain; wait for its end")
        return self._members.numbering.following(wanted)

    def follow(
        self, numbering: Numbering, keys: KeyRing, wanted: Mapping[str, str]
    ) -> None:
        """Takes new nodes, and lets those leave that domain.toml lacks. numbering: what
        ``planned`` returned. Raises CoschedError if it cannot be stored; nothing has
        changed then."""
        if numbering != self._members.numbering:
            save_numbering(self._paths, numbering)
        with must_succeed("a change of the nodes"):
            new = self._members.take(numbering)
            for member in new:
                self._public[member.name] = keys.public[member.name]
                self._log(f"node {member.name} was added")
            if new:
                self._jobs.nodes_added(new)
                self._publish()
            self.mark_leaving(wanted)

    def loses_some(self, wanted: Mapping[str, str]) -> bool:
        """Returns whether domain.toml lacks a node that does not leave yet."""
        return any(
            member.name not in wanted and not member.leaving
            for member in self._members.by_number
        )

    def owners_of_other_keys(self, keys: KeyRing) -> list[str]:
        """Returns the members that have another public key than the one in use."""
        used = {**self._controller, **self._public}
        return sorted(
            name for name, key in keys.public.items() if used.get(name, key) != key
        )

    def mark_leaving(self, wanted: Mapping[str, str]) -> None:
        """Keeps jobs away from the nodes that domain.toml lacks."""
        for member in self._members.by_number:
            if member.name in wanted or member.leaving:
                continue
            member.leaving = member.drained = True
            member.reason = _LEAVES
            self._log(f"node {member.name} leaves")
            if member.state is NodeState.UP:
                member.state = NodeState.DRAINED
                self._jobs.node_drained(member)

    def jobs_on(self, member: NodeEntry) -> list[int]:
        """Returns the numbers of the jobs that a node has."""
        return sorted(start.record.number for start in self._jobs.starts.on(member.name))

    async def parted(self, names: Iterable[str]) -> None:
        """Returns once the former nodes of these names have ended, or will not."""
        for name in names:
            if name in self._parting:
                await self._parting[name].over.wait()

    async def gone(self, members: Iterable[NodeEntry]) -> None:
        """Returns once these nodes, which leave, have gone."""
        futures = []
        for number in {member.number for member in members}:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waits.setdefault(number, []).append(future)
            futures.append(future)
        await asyncio.gather(*futures)

    def go_on(self, now_ns: int, lost_after_ns: int) -> None:
        """Removes the nodes that leave and have no job any more."""
        self._end_partings(now_ns)
        idle = [
            member
            for member in self._members.by_number
            if member.leaving
            and not self._jobs.starts.on(member.name)
            and not self._jobs.strays.on(member.name)
        ]
        if idle:
            with must_succeed("the removal of a node"):
                self._remove(idle, now_ns + lost_after_ns)

    def _end_partings(self, now_ns: int) -> None:
        """Turns away removed nodes that have confirmed it, or never will."""
        over = [
            name
            for name, parting in self._parting.items()
            if self._links.has_confirmed(name) or now_ns >= parting.until_ns
        ]
        if over:
            for name in over:
                self._parting.pop(name).over.set()
                del self._public[name]
            self.meet()

    def _remove(self, idle: list[NodeEntry], until_ns: int) -> None:
        names = {member.name for member in idle}
        numbering = self._members.numbering.without(names)
        save_numbering(self._paths, numbering)
        self._members.take(numbering)
        self._jobs.nodes_removed(idle)
        for member in idle:
            self._log(f"node {member.name} was removed")
            self._parting[member.name] = _Parting(
                member.address, until_ns if member.answers else 0
            )
            for future in self._waits.pop(member.number, ()):
                if not future.done():  # otherwise the user has left
                    future.set_result(None)
        self._publish()
        # The users who wait get their answers first, also those at a node that goes.
        asyncio.get_running_loop().call_soon(self._dismiss, idle)

    def _dismiss(self, gone: list[NodeEntry]) -> None:
        for member in gone:
            self._on_gone(member.name)
            if member.answers:
                self._links.send(member.name, Leave("its node was removed"))

    def _publish(self) -> None:
        """Lets all members have the nodes as they are now."""
        self._on_change(self._members.numbering.addresses)
        self.meet()
        roster = self.roster
        for member in self._members.by_number:
            if member.answers:
                self._links.send(member.name, roster)

    def meet(self) -> None:
        """Lets exactly the present nodes connect, and those that part; removed ones get an
        answer."""
        parting = {name: each.address for name, each in self._parting.items()}
        addresses = {**self._members.numbering.addresses, **parting}
        public = {**self._controller, **self._public}
        former = Former(former_keys(self._paths.keys, public), encode(Refused(REMOVED)))
        self._links.meet(addresses, public, former)
