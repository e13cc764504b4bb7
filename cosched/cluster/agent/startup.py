"""Starts one job on one node: drives the pure machines of ``core.cluster.startup`` with the
messages of the job's tree and the frames of its steward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from cosched.cluster.agent.frames import DeliverTables, Frame
from cosched.cluster.keys import CONTROLLER
from cosched.cluster.messages import (
    Chunk,
    Message,
    Order,
    StartFailed,
    SubtreePrepared,
    Tables,
)
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.startup import gate, relay, tables
from cosched.core.cluster.startup.tree import Place, Tree
from cosched.core.errors import CoschedError


class Surroundings(Protocol):
    """Does for the start of a job what its node can do."""

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain."""

    def read_object(self, data: bytes) -> None:
        """Takes the whole job object; the tasks are to be prepared."""

    def send_to_steward(self, frame: Frame) -> None:
        """Sends a frame to the job's steward."""

    def open_gate(self) -> None:
        """Lets this node's tasks begin."""

    def discard(self, reason: str) -> None:
        """Ends this node's tasks, which have not begun."""


@dataclass(frozen=True, slots=True)
class Route:
    """The tree of one start. hosts: the nodes' names, by place."""

    job: int
    start: int
    place: Place
    nodes: Intervals
    hosts: tuple[str, ...]
    tree: Tree
    exchange: str

    @property
    def parent(self) -> str:
        """The name of the parent; the controller is the root's."""
        above = self.tree.parent(self.place)
        return CONTROLLER if above is None else self.hosts[above]

    @property
    def children(self) -> tuple[Place, ...]:
        return tuple(self.tree.children(self.place))

    def place_of(self, host: str) -> Place:
        """Returns the neighbour's place. Raises CoschedError for another member."""
        for place in self.tree.neighbours(self.place):
            if self.hosts[place] == host:
                return place
        raise CoschedError(f"job {self.job}: {host} is no neighbour in its tree")

    def towards(self, place: Place) -> str:
        """Returns the child whose subtree has ``place``."""
        while (above := self.tree.parent(place)) != self.place:
            if above is None:
                raise CoschedError(f"job {self.job}: node {place} is not below this one")
            place = above
        return self.hosts[place]


def route_of(chunk: Chunk, names: tuple[str, ...]) -> Route:
    """Returns the tree that a chunk describes. names: the domain's nodes by number. Raises
    CoschedError for a tree that cannot be."""
    if any(last >= len(names) or first > last for first, last in chunk.nodes):
        raise CoschedError(f"job {chunk.job}: has nodes that the domain lacks")
    hosts = tuple(
        names[number] for first, last in chunk.nodes for number in range(first, last + 1)
    )
    tree = Tree(len(hosts), chunk.arity)
    if not 0 <= chunk.place < len(hosts):
        raise CoschedError(f"job {chunk.job}: has no node {chunk.place}")
    return Route(
        chunk.job, chunk.start, chunk.place, chunk.nodes, hosts, tree, chunk.exchange
    )


@dataclass(slots=True)
class _Outgoing:
    """Tables that wait for a message to one neighbour."""

    places: list[Place] = field(default_factory=list)
    size: int = 0


class Dispatch:
    """Receives the job object and passes it on; prepares, then opens the gate."""

    def __init__(self, route: Route, around: Surroundings, design: str) -> None:
        self._route = route
        self._around = around
        machine = relay.Pipeline if design == "pipeline" else relay.StoreAndForward
        self._relay = machine(route.children)
        self._gate = gate.Gate(route.children)
        self._chunks: dict[int, bytes] = {}
        self._count = 0
        self._reason = ""

    @property
    def stage(self) -> gate.Stage:
        """How far the start is on this node."""
        return self._gate.stage

    def take_chunk(self, chunk: Chunk) -> None:
        """Takes a part of the job object."""
        self._chunks.setdefault(chunk.number, chunk.data)
        self._count = chunk.count
        for command in self._relay.handle(relay.ChunkArrived(chunk.number, chunk.count)):
            match command:
                case relay.SendChunk():
                    self._send_chunk(command.child, command.number)
                case relay.SendPart():
                    for number in range(self._count):
                        self._send_chunk(command.child, number)
                case relay.ReadObject():
                    whole = b"".join(self._chunks[number] for number in range(self._count))
                    self._around.read_object(whole)

    def take(self, event: gate.Event) -> None:
        """Takes an event of the two-phase start."""
        route = self._route
        if isinstance(event, gate.PrepareFailed):
            self._reason = event.reason
        for command in self._gate.handle(event):
            match command:
                case gate.ReportPrepared():
                    self._send(route.parent, SubtreePrepared(route.job, route.start))
                case gate.ReportFailure():
                    failed = StartFailed(
                        route.job, route.start, command.place, command.reason, command.again
                    )
                    self._send(route.parent, failed)
                case gate.Order():
                    order = Order(route.job, route.start, command.go)
                    self._send(route.hosts[command.child], order)
                case gate.OpenGate():
                    self._around.open_gate()
                case gate.Discard():
                    self._around.discard(self._reason)

    def _send_chunk(self, child: Place, number: int) -> None:
        route = self._route
        chunk = Chunk(
            route.job,
            route.start,
            child,
            route.nodes,
            route.tree.arity,
            route.exchange,
            number,
            self._count,
            self._chunks[number],
        )
        self._send(route.hosts[child], chunk)

    def _send(self, to: str, message: Message) -> None:
        self._around.send(to, message)


class TableExchanges:
    """The exchanges of network tables of one job on one node, which are numbered.

    chunk_bytes: tables for one neighbour wait until they have so many bytes, or until no
    more will follow.
    """

    def __init__(self, route: Route, around: Surroundings, chunk_bytes: int) -> None:
        self._route = route
        self._around = around
        self._chunk_bytes = chunk_bytes
        self._own = 0  # the number of this node's next table
        self._open: dict[int, _Exchange] = {}

    def table_ready(self, table: bytes) -> None:
        """Takes this node's table of its next exchange."""
        number, self._own = self._own, self._own + 1
        exchange = self._exchange(number)
        exchange.data[self._route.place] = table
        self._carry_out(number, exchange.machine.handle(tables.TableReady()))

    def take(self, sender: str, message: Tables) -> None:
        """Takes a neighbour's tables. Raises CoschedError for any that do not belong."""
        place = self._route.place_of(sender)
        exchange = self._exchange(message.number)
        event = tables.TablesArrived(place, message.places, message.last)
        if len(message.places) != len(message.data):
            raise CoschedError(
                f"job {self._route.job}: {sender} sent tables without places"
            )
        commands = exchange.machine.handle(event)
        exchange.data.update(zip(message.places, message.data, strict=True))
        self._carry_out(message.number, commands)

    def _exchange(self, number: int) -> _Exchange:
        if number not in self._open:
            kind = (
                tables.Siblings
                if self._route.exchange == "siblings"
                else tables.ThroughRoot
            )
            self._open[number] = _Exchange(kind(self._route.tree, self._route.place))
        return self._open[number]

    def _carry_out(self, number: int, commands: tuple[tables.Command, ...]) -> None:
        exchange = self._open[number]
        for command in commands:
            if isinstance(command, tables.SendTables):
                self._queue(number, exchange, command)
            else:
                everything = tuple(
                    exchange.data[place] for place in range(self._route.tree.size)
                )
                self._around.send_to_steward(DeliverTables(everything))
                del self._open[number]

    def _queue(self, number: int, exchange: _Exchange, command: tables.SendTables) -> None:
        waiting = exchange.outgoing.setdefault(command.to, _Outgoing())
        waiting.places += command.places
        waiting.size += sum(len(exchange.data[place]) for place in command.places)
        if command.last or waiting.size >= self._chunk_bytes:
            places = tuple(waiting.places)
            data = tuple(exchange.data[place] for place in places)
            route = self._route
            message = Tables(route.job, route.start, number, places, data, command.last)
            self._around.send(route.hosts[command.to], message)
            exchange.outgoing[command.to] = _Outgoing()


@dataclass(slots=True)
class _Exchange:
    machine: tables.Exchange
    data: dict[Place, bytes] = field(default_factory=dict)
    outgoing: dict[Place, _Outgoing] = field(default_factory=dict)
