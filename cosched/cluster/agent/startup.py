"""Starts one job on one node: drives the pure machines of ``core.cluster.startup`` with the
messages of the job's tree and the frames of its steward."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from cosched.cluster.agent import steps
from cosched.cluster.agent.frames import DeliverTables, Frame
from cosched.cluster.agent.route import Route
from cosched.cluster.message_kinds import Message
from cosched.cluster.messages import (
    LONGEST,
    Chunk,
    Order,
    StartFailed,
    SubtreePrepared,
    Tables,
)
from cosched.core.cluster.coupling.mate_messages import Addresses
from cosched.core.cluster.startup import object_relay, tables, two_phase
from cosched.core.cluster.startup.tree import Position
from cosched.core.errors import CoschedError

#: The longest table of one node, in bytes, and of all nodes of a job together. A message
#: has less than two tables more than a chunk, so none is longer than a link carries.
LONGEST_TABLE = LONGEST // 4
LONGEST_TABLES = LONGEST - (LONGEST >> 4)
#: How many exchanges a neighbour may be ahead of this node.
AHEAD_MOST = 1024


class Surroundings(Protocol):
    """Does for the start of a job what its node can do."""

    def send(self, to: str, message: Message) -> None:
        """Sends a message to a member of the domain."""

    def read_object(self, data: bytes) -> None:
        """Decodes the whole job object, and prepares the tasks."""

    def send_to_steward(self, frame: Frame) -> None:
        """Sends a frame to the job's steward."""

    def open_gate(self) -> None:
        """Opens the gates of this node's tasks."""

    def discard(self, reason: str) -> None:
        """Ends this node's tasks, which have not begun."""

    def fail(self, reason: str) -> None:
        """Ends the whole job."""

    def note(self, step: str) -> None:
        """Reports that this start has reached a step (``agent.steps``)."""


@dataclass(slots=True)
class _Outgoing:
    """Tables that wait for a message to one neighbour."""

    places: list[Position] = field(default_factory=list)
    size: int = 0


class Dispatch:
    """Receives the job object and passes it on; prepares the tasks, then they begin."""

    def __init__(self, route: Route, around: Surroundings, design: str) -> None:
        self._route = route
        self._around = around
        machine = (
            object_relay.Pipeline if design == "pipeline" else object_relay.StoreAndForward
        )
        self._relay = machine(route.children)
        self._two_phase = two_phase.TwoPhaseStart(route.children)
        self._chunks: dict[int, Chunk] = {}
        self._bytes = 0  # of all chunks
        self._reason = ""
        self.mates: Addresses = ()  #: as the order to go names them

    @property
    def stage(self) -> two_phase.Stage:
        """How far the start is on this node."""
        return self._two_phase.stage

    def take_chunk(self, chunk: Chunk) -> None:
        """Adds a part of the job object. Raises CoschedError for one that does not belong
        to the others."""
        size = self._bytes + len(chunk.data)
        if size > LONGEST:
            raise CoschedError(f"job {chunk.job}: its object is longer than {LONGEST}")
        commands = self._relay.handle(object_relay.ChunkArrived(chunk.number, chunk.count))
        if chunk.number not in self._chunks:
            self._chunks[chunk.number] = chunk
            self._bytes = size
        for command in commands:
            match command:
                case object_relay.SendChunk():
                    self._send_chunk(command.child, command.number)
                case object_relay.SendPart():
                    for number in range(chunk.count):
                        self._send_chunk(command.child, number)
                case object_relay.ReadObject():
                    parts = (self._chunks[number] for number in range(chunk.count))
                    whole = b"".join(part.data for part in parts)
                    self._around.note(steps.OBJECT)
                    self._around.read_object(whole)

    def obey(self, order: Order) -> None:
        """Carries out the parent's order."""
        self.mates = order.mates
        self.take(two_phase.Ordered(order.go))

    def take(self, event: two_phase.Event) -> None:
        """Handles an event of the two-phase start."""
        route = self._route
        if isinstance(event, two_phase.PrepareFailed):
            self._reason = event.reason
        for command in self._two_phase.handle(event):
            match command:
                case two_phase.ReportPrepared():
                    self._send(route.parent, SubtreePrepared(route.job, route.start))
                case two_phase.ReportFailure():
                    failed = StartFailed(
                        route.job, route.start, command.place, command.reason, command.again
                    )
                    self._send(route.parent, failed)
                case two_phase.Order():
                    order = Order(route.job, route.start, command.go, self.mates)
                    self._send(route.hosts[command.child], order)
                case two_phase.Begin():
                    self._around.note(steps.GO)
                    self._around.open_gate()
                case two_phase.Discard():
                    self._around.discard(self._reason)

    def _send_chunk(self, child: Position, number: int) -> None:
        chunk = msgspec.structs.replace(self._chunks[number], place=child)
        self._send(self._route.hosts[child], chunk)

    def _send(self, to: str, message: Message) -> None:
        self._around.send(to, message)


class TableExchanges:
    """The exchanges of network tables of one job on one node, which are numbered.

    chunk_bytes: tables for one neighbour wait until they have this size, or until no more
    will follow. The old design, through the root, sends them all at once if it can.
    """

    def __init__(self, route: Route, around: Surroundings, chunk_bytes: int) -> None:
        siblings = route.exchange == "siblings"
        self._route = route
        self._around = around
        self._kind = tables.Siblings if siblings else tables.ThroughRoot
        self._message_bytes = chunk_bytes if siblings else LONGEST_TABLE
        self._own = 0  # the number of this node's next table
        self._open: dict[int, _Exchange] = {}

    def table_ready(self, table: bytes) -> None:
        """Adds this node's table of its next exchange. Raises CoschedError for one that is
        too large."""
        if len(table) > LONGEST_TABLE:
            raise CoschedError(
                f"the MPI's table has {len(table)} bytes on one node, more than "
                f"{LONGEST_TABLE}"
            )
        number, self._own = self._own, self._own + 1
        self._around.note(f"{steps.TABLE} {number}")
        exchange = self._exchange(number)
        exchange.data[self._route.place] = table
        self._carry_out(number, exchange.machine.handle(tables.TableReady()))

    def take(self, sender: str, message: Tables) -> None:
        """Adds a neighbour's tables. Raises CoschedError for any that do not belong."""
        place = self._route.place_of(sender)
        if len(message.places) != len(message.data):
            raise CoschedError(
                f"job {self._route.job}: {sender} sent tables without places"
            )
        number = message.number
        over = number < self._own and number not in self._open
        if over or number >= self._own + AHEAD_MOST:
            raise CoschedError(
                f"job {self._route.job}: {sender} sent tables of no open exchange"
            )
        exchange = self._exchange(number)
        event = tables.TablesArrived(place, message.places, message.last)
        commands = exchange.machine.handle(event)
        exchange.data.update(zip(message.places, message.data, strict=True))
        self._carry_out(message.number, commands)

    def _exchange(self, number: int) -> _Exchange:
        if number not in self._open:
            self._open[number] = _Exchange(self._kind(self._route.tree, self._route.place))
        return self._open[number]

    def _carry_out(self, number: int, commands: tuple[tables.Command, ...]) -> None:
        exchange = self._open[number]
        for command in commands:
            if isinstance(command, tables.SendTables):
                self._queue(number, exchange, command)
            else:
                self._around.note(f"{steps.TABLES} {number}")
                everything = tuple(
                    exchange.data[place] for place in range(self._route.tree.size)
                )
                del self._open[number]
                self._deliver(everything)

    def _deliver(self, everything: tuple[bytes, ...]) -> None:
        size = sum(map(len, everything))
        if size > LONGEST_TABLES:
            reason = f"the MPI's tables have {size} bytes, more than {LONGEST_TABLES}"
            self._around.fail(reason)
        else:
            self._around.send_to_steward(DeliverTables(everything))

    def _queue(self, number: int, exchange: _Exchange, command: tables.SendTables) -> None:
        """Sends tables once they fill a message, or if no more will follow."""
        waiting = exchange.outgoing.setdefault(command.to, _Outgoing())
        for place in command.places:
            if waiting.size >= self._message_bytes:
                self._send(number, exchange, command.to, last=False)
            waiting.places.append(place)
            waiting.size += len(exchange.data[place])
        if command.last or waiting.size >= self._message_bytes:
            self._send(number, exchange, command.to, last=command.last)

    def _send(self, number: int, exchange: _Exchange, to: Position, *, last: bool) -> None:
        waiting, route = exchange.outgoing[to], self._route
        places = tuple(waiting.places)
        data = tuple(exchange.data[place] for place in places)
        message = Tables(route.job, route.start, number, places, data, last)
        waiting.places.clear()
        waiting.size = 0
        self._around.send(route.hosts[to], message)


@dataclass(slots=True)
class _Exchange:
    machine: tables.Exchange
    data: dict[Position, bytes] = field(default_factory=dict)
    outgoing: dict[Position, _Outgoing] = field(default_factory=dict)
