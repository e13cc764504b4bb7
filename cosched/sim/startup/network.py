"""Keeps the CPUs of simulated nodes, each of which does one thing at a time.

A node handles messages in the order of their arrival. The time of
one message delays those behind it. A message arrives as a whole, one latency after its last
byte left its link (``links``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from cosched.core.cluster.startup.tree import Position
from cosched.sim.startup.costs import Costs
from cosched.sim.startup.links import Message, links_for
from cosched.sim.virtual_time import VirtualTime

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
