"""Drives the queue in real time: makes a pass after each event, and when its time comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from cosched.cluster.controller.clock import DomainClock
from cosched.core.cluster.coupling import queue as coupled
from cosched.core.cluster.queue.messages import AnyQueue, Ticked, WakeAt
from cosched.core.errors import changing, must_succeed
from cosched.core.units import NS_PER_S

#: The queue of a domain that is not coupled takes some of these only.
Event = coupled.Event
Command = coupled.Command


class QueueDriver:
    """Feeds ``queue``. before: called with the commands before they are carried out.
    carry_out: does what a command orders; a wake-up is not among them.

    frozen: while True no job starts, because the controller recovers or the domain ends.
    """

    def __init__(
        self,
        queue: AnyQueue,
        clock: DomainClock,
        before: Callable[[Sequence[Command]], None],
        carry_out: Callable[[Command], None],
    ) -> None:
        self.frozen = True
        self._queue = queue
        self._clock = clock
        self._before = before
        self._carry_out = carry_out
        self._timer: asyncio.TimerHandle | None = None
        self._pass: asyncio.Handle | None = None

    def handle(self, event: Event) -> None:
        """Takes an event, and makes a pass once the events of this moment are in.

        Raises CoschedError for an event that cannot be; nothing has changed then. Raises
        StateLost if an order is not carried out, for example because the disk is full: the
        queue believes that it was."""
        self._feed(event)
        self._soon()

    def decide(self) -> None:
        """Makes the pass now that would follow the events of this moment."""
        if self._pass is not None:
            self._pass.cancel()
            self._tick()

    def freeze(self) -> None:
        """Lets no job start until ``thaw``."""
        self.frozen = True

    def thaw(self) -> None:
        """Lets jobs start."""
        self.frozen = False
        self._soon()

    def _soon(self) -> None:
        if self._pass is None and not self.frozen:
            self._pass = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self._pass = None
        if not self.frozen:
            self._feed(Ticked(self._clock.now_ns()))

    def _feed(self, event: Event) -> None:
        with changing("the queue"):
            commands = self._queue.handle(event)
        with must_succeed("the orders of the queue"):
            self._before(commands)
            for command in commands:
                if isinstance(command, WakeAt):
                    self._wake(command.at_ns)
                else:
                    self._carry_out(command)

    def _wake(self, at_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            delay_s = max(0.0, (at_ns - self._clock.now_ns()) / NS_PER_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)
