"""Drives the machines of ``core.cluster.startup`` on simulated nodes.

The job's manager sends the job object to the root. Each node passes it on, reads it, and
goes through the stages of the run (``StartupRun.stages``). A node waits for others only
where the machines wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cosched.core.cluster.startup import tables, two_phase
from cosched.core.cluster.startup.object_relay import (
    ChunkArrived,
    Pipeline,
    SendChunk,
    SendPart,
)
from cosched.core.cluster.startup.tree import Position
from cosched.sim.startup.counted import Tables
from cosched.sim.startup.model import Stage, StartupRun
from cosched.sim.startup.network import MANAGER, Network
from cosched.sim.virtual_time import NEVER, Progress, VirtualTime

#: Bytes of a report to the parent, and of an order to a child.
REPORT_BYTES = 32


@dataclass(slots=True)
class _Outgoing:
    """Tables that wait for a message to one neighbour. count: how many."""

    parts: list[Sequence[Position]] = field(default_factory=list)
    count: int = 0

    def add(self, places: Sequence[Position]) -> None:
        """Adds the tables of these nodes."""
        self.parts.append(places)
        self.count += len(places)


@dataclass(slots=True)
class NodeTimes:
    """The times of events on a node, in ns of virtual time from the manager's first
    work."""

    arrived_ns: int = NEVER  #: it had the whole object
    #: It had the tables of its children's subtrees; NEVER without children.
    partial_ns: int = NEVER
    complete_ns: int = NEVER  #: it had all tables; NEVER if the object has them
    #: It had done a stage, which includes reading.
    done_ns: dict[Stage, int] = field(default_factory=dict)


class _Node:
    __slots__ = ("exchange", "gate", "incomplete", "outgoing", "relay", "stages", "times")

    def __init__(self, run: StartupRun, how: Tables, place: Position) -> None:
        children = tuple(run.tree.children(place))
        self.relay = run.way.relay(children)
        self.gate = two_phase.TwoPhaseStart(children)
        self.exchange = (
            None
            if run.way.exchange is None
            else how.machine(run.way.exchange, run.tree, place)
        )
        self.outgoing: dict[Position, _Outgoing] = {}
        self.incomplete = set(children)  # their subtrees' tables are not all here
        self.stages = iter(run.stages)
        self.times = NodeTimes()


class Start:
    """One start of a job in virtual time."""

    def __init__(self, run: StartupRun, how: Tables) -> None:
        self._run = run
        self._how = how
        self._tree = run.tree
        self._engine = VirtualTime()
        self.network = Network(self._engine, run.costs, run.nodes)
        self._nodes = [_Node(run, how, place) for place in range(run.nodes)]
        self._done = 0
        self.sent_ns = 0  #: when the manager had written the object
        whole = run.object_of(0)
        pipelined = run.way.relay is Pipeline
        size = run.chunk_bytes if pipelined else max(1, whole)
        self._chunks = [min(size, whole - at) for at in range(0, whole, size)] or [0]

    def carry_out(self, progress: Progress) -> list[NodeTimes]:
        """Returns the times of all nodes."""
        whole = self._run.object_of(0)
        self.sent_ns = self.network.work(MANAGER, self._run.costs.codec_of_ns(whole))
        for number in range(len(self._chunks)):
            self._send_chunk(MANAGER, 0, number)
        steps = self._run.nodes * len(self._run.stages)
        self._engine.run(lambda: progress(self._done / steps))
        return [node.times for node in self._nodes]

    # --- stages ---------------------------------------------------------------------------

    def _next(self, place: Position) -> None:
        """Begins the next stage of a node."""
        node, costs = self._nodes[place], self._run.costs
        stage = next(node.stages, None)
        if stage is Stage.ASSIGN:
            self.network.work(place, costs.assigning_ns(self._run.tasks))
            self._finish(place, Stage.ASSIGN)
        elif stage is Stage.TABLES:
            self._exchange(place, tables.TableReady())
        elif stage is Stage.START:
            self.network.work(place, costs.starting_ns(self._run.tasks))
            self._finish(place, Stage.START)
        elif stage is Stage.GO:
            self._take_event(place, two_phase.Prepared())

    def _finish(self, place: Position, stage: Stage) -> None:
        self._nodes[place].times.done_ns[stage] = self.network.idle_ns(place)
        self._done += 1
        self._next(place)

    # --- the job object -------------------------------------------------------------------

    def _send_chunk(self, place: Position, child: Position, number: int) -> None:
        chunk = ChunkArrived(number, len(self._chunks))
        self.network.send(place, child, self._chunks[number], self._take_chunk, chunk)

    def _take_chunk(self, place: Position, _sender: Position, chunk: ChunkArrived) -> None:
        node, run = self._nodes[place], self._run
        for command in node.relay.handle(chunk):
            if isinstance(command, SendChunk):
                self._send_chunk(place, command.child, command.number)
            elif isinstance(command, SendPart):
                part = run.object_of(command.child)
                if run.divisible_bytes:
                    self.network.work(place, run.costs.codec_of_ns(part))
                whole = ChunkArrived(0, 1)
                self.network.send(place, command.child, part, self._take_chunk, whole)
            else:
                next(node.stages)
                node.times.arrived_ns = self.network.idle_ns(place)
                size = run.object_of(place)
                self.network.work(place, run.costs.codec_of_ns(size))
                node.times.done_ns[Stage.OBJECT] = self.network.idle_ns(place)
                self._done += 1
        if Stage.OBJECT in node.times.done_ns:
            self._next(place)

    # --- the tables -----------------------------------------------------------------------

    def _exchange(self, place: Position, event: tables.Event) -> None:
        exchange = self._nodes[place].exchange
        assert exchange is not None
        for command in exchange.handle(event):
            if isinstance(command, tables.SendTables):
                self._queue(place, command)
                continue
            self._nodes[place].times.complete_ns = self.network.idle_ns(place)
            size = self._run.nodes * self._run.node_table_bytes
            self.network.work(place, self._run.costs.codec_of_ns(size))
            self._finish(place, Stage.TABLES)

    def _queue(self, place: Position, command: tables.SendTables) -> None:
        """Sends tables once they fill a message, or if no more will follow."""
        outgoing, to = self._nodes[place].outgoing, command.to
        waiting, places = outgoing.setdefault(to, _Outgoing()), command.places
        while waiting.count + len(places) > self._run.tables_in_message:
            room = self._run.tables_in_message - waiting.count
            waiting.add(places[:room])
            self._send_tables(place, to, waiting, last=False)
            waiting, places = _Outgoing(), places[room:]
        waiting.add(places)
        outgoing[to] = waiting
        if command.last or waiting.count == self._run.tables_in_message:
            del outgoing[to]
            self._send_tables(place, to, waiting, last=command.last)

    def _send_tables(
        self, place: Position, to: Position, waiting: _Outgoing, *, last: bool
    ) -> None:
        sent = tables.TablesArrived(place, self._how.join(waiting.parts), last)
        size = waiting.count * self._run.node_table_bytes
        self.network.send(place, to, size, self._take_tables, sent)

    def _take_tables(
        self, place: Position, sender: Position, event: tables.TablesArrived
    ) -> None:
        node = self._nodes[place]
        if event.last and sender in node.incomplete:
            node.incomplete.remove(sender)
            if not node.incomplete:
                node.times.partial_ns = self.network.idle_ns(place)
        self._exchange(place, event)

    # --- the gate -------------------------------------------------------------------------

    def _take_event(self, place: Position, event: two_phase.Event) -> None:
        for command in self._nodes[place].gate.handle(event):
            if isinstance(command, two_phase.ReportPrepared):
                parent = self._tree.parent(place)
                to = MANAGER if parent is None else parent
                self.network.send(place, to, REPORT_BYTES, self._take_report, None)
            elif isinstance(command, two_phase.Order):
                self._order(place, command.child)
            elif isinstance(command, two_phase.Begin):
                self._finish(place, Stage.GO)

    def _take_report(self, place: Position, child: Position, _: None) -> None:
        if place == MANAGER:
            self._order(MANAGER, child)
        else:
            self._take_event(place, two_phase.SubtreePrepared(child))

    def _order(self, place: Position, child: Position) -> None:
        self.network.send(place, child, REPORT_BYTES, self._take_order, None)

    def _take_order(self, place: Position, _parent: Position, _: None) -> None:
        self._take_event(place, two_phase.Ordered(go=True))
