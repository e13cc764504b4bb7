"""Keeps the CPUs and the links of simulated nodes. A CPU does one thing at a time.

A node handles messages in the order of their arrival. The time of
one message delays those behind it. A message arrives as a whole, one latency after its last
byte left its link.

Bytes leave a link in the order in which they came to its queue. ``Wholes`` queues messages
as a whole, as a fast network does. ``Windows`` queues no more of a connection than its
window: the rest follows when others had their turn, as TCP does on a slow link.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from cosched.core.cluster.startup.tree import Position
from cosched.core.units import NS_PER_S
from cosched.sim.startup.costs import Costs
from cosched.sim.virtual_time import END, VirtualTime

#: Takes a message that has arrived.
Arrive: TypeAlias = Callable[[Any], None]
#: A window is queued in so many pieces.
_PIECES = 4
#: The job's manager, as the parent of the root.
MANAGER: Position = -1

#: Handles a message: receiver, sender, content.
Deliver: TypeAlias = Callable[[Position, Position, Any], None]


class Network:
    """The nodes 0 to ``size`` - 1 and the manager."""

    def __init__(self, engine: VirtualTime, costs: Costs, size: int) -> None:
        self._engine = engine
        self._costs = costs
        # The manager is the last one, which -1 finds.
        self._cpu_free_ns = [0] * (size + 1)
        self._links = links_for(engine, costs, size + 1)
        self.messages = 0
        self.bytes = 0

    def idle_ns(self, place: Position) -> int:
        """Returns when a node has done what it has begun."""
        return self._cpu_free_ns[place]

    def work(self, place: Position, cost_ns: int) -> int:
        """Occupies the CPU of a node; returns when it is free again."""
        begin_ns = max(self._cpu_free_ns[place], self._engine.now_ns)
        self._cpu_free_ns[place] = begin_ns + cost_ns
        return begin_ns + cost_ns

    def send(
        self, place: Position, to: Position, size: int, deliver: Deliver, content: object
    ) -> None:
        """Sends a message of ``size`` bytes."""
        handling_ns = self._costs.handling_ns(size)
        ready_ns = self.work(place, handling_ns)
        self.messages += 1
        self.bytes += size
        arrived = (to, place, handling_ns, deliver, content)
        self._links.send(Message(place, to, size, self._arrive, arrived), ready_ns)

    def _arrive(self, arrived: tuple[Position, Position, int, Deliver, object]) -> None:
        to, sender, handling_ns, deliver, content = arrived
        self.work(to, handling_ns)
        deliver(to, sender, content)


@dataclass(frozen=True, slots=True)
class Message:
    """A message on a link."""

    place: Position  #: the node that sends it
    to: Position  #: the node that gets it
    size: float  #: bytes of its content
    arrive: Arrive  #: called with ``what`` when the message has arrived
    what: object  #: the argument of ``arrive``


class Links(Protocol):
    """The links of all nodes, one for each."""

    def send(self, message: Message, ready_ns: int) -> None:
        """Sends a message that is ready at a time."""


class Wholes:
    """Each link sends one message after the other."""

    def __init__(self, engine: VirtualTime, costs: Costs, size: int) -> None:
        self._engine = engine
        self._costs = costs
        self._free_ns = [0] * size

    def send(self, message: Message, ready_ns: int) -> None:
        begin_ns = max(ready_ns, self._free_ns[message.place])
        sent_ns = begin_ns + self._costs.sending_ns(message.size)
        self._free_ns[message.place] = sent_ns
        arrives_ns = sent_ns + self._costs.latency_ns
        self._engine.at(arrives_ns, END, message.arrive, message.what)


@dataclass(slots=True)
class _Rest:
    """The part of a message that is not queued yet. left_ns: its time on the link."""

    message: Message
    left_ns: int


@dataclass(slots=True)
class _Connection:
    """A node's connection to another one. queued_ns: the link's time for what is queued.
    waiting: the oldest first."""

    place: Position
    queued_ns: int = 0
    waiting: deque[_Rest] = field(default_factory=deque)


class Windows:
    """Each connection has at most a window in the queue of its link. The window moves on
    when bytes leave the link, not when they have arrived."""

    def __init__(self, engine: VirtualTime, costs: Costs, size: int) -> None:
        self._engine = engine
        self._costs = costs
        self._window_ns = round(costs.window_bytes * NS_PER_S / (costs.link_mb_s * 1e6))
        self._piece_ns = max(1, self._window_ns // _PIECES)
        self._free_ns = [0] * size
        self._connections: dict[tuple[Position, Position], _Connection] = {}

    def send(self, message: Message, ready_ns: int) -> None:
        self._engine.at(ready_ns, END, self._add, message)

    def _add(self, message: Message) -> None:
        key = (message.place, message.to)
        connection = self._connections.setdefault(key, _Connection(message.place))
        connection.waiting.append(_Rest(message, self._costs.sending_ns(message.size)))
        self._fill(connection)

    def _fill(self, connection: _Connection) -> None:
        """Queues what the window allows, and at least one piece."""
        while connection.waiting:
            rest = connection.waiting[0]
            piece_ns = min(self._piece_ns, rest.left_ns)
            if connection.queued_ns and connection.queued_ns + piece_ns > self._window_ns:
                return
            rest.left_ns -= piece_ns
            self._queue(connection, piece_ns, rest)

    def _queue(self, connection: _Connection, piece_ns: int, rest: _Rest) -> None:
        connection.queued_ns += piece_ns
        place, message = connection.place, rest.message
        sent_ns = max(self._engine.now_ns, self._free_ns[place]) + piece_ns
        self._free_ns[place] = sent_ns
        self._engine.at(sent_ns, END, self._leave, (connection, piece_ns))
        if not rest.left_ns:
            connection.waiting.popleft()
            arrives_ns = sent_ns + self._costs.latency_ns
            self._engine.at(arrives_ns, END, message.arrive, message.what)

    def _leave(self, left: tuple[_Connection, int]) -> None:
        connection, piece_ns = left
        connection.queued_ns -= piece_ns
        self._fill(connection)


def links_for(engine: VirtualTime, costs: Costs, size: int) -> Links:
    """Returns the links of ``size`` nodes."""
    kind = Windows if costs.window_bytes else Wholes
    return kind(engine, costs, size)
