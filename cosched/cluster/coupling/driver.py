"""Drives the decisions of a domain in real time: makes a pass after each event, and when
its time comes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cosched.cluster.coupling.clock import DomainClock
from cosched.cluster.coupling.pairs import Pairs
from cosched.core.cluster.coupling.engine_messages import Received, Send
from cosched.core.cluster.coupling.mate_messages import AnyMessage
from cosched.core.cluster.queue.queue_commands import WakeAt
from cosched.core.cluster.queue.queue_events import Machine, Ticked
from cosched.core.errors import CoschedError, StateLost, changing, must_succeed
from cosched.core.units import NS_PER_S


class Driver:
    """Feeds ``machine``. carry_out: does what a command orders in the engine; messages and
    wake-ups are not among them. pairs: those of a coupled domain, whose state is stored
    before orders are carried out.

    frozen: while True no job starts, because the controller recovers or the domain ends.
    """

    def __init__(
        self,
        machine: Machine,
        clock: DomainClock,
        carry_out: Callable[[Any], None],
        pairs: Pairs | None = None,
    ) -> None:
        self.frozen = True
        self._machine = machine
        self._clock = clock
        self._carry_out = carry_out
        self._pairs = pairs
        self._timer: asyncio.TimerHandle | None = None
        self._pass: asyncio.Handle | None = None
        self._received: list[Received] = []  # messages that are not taken yet
        self._taking: asyncio.Handle | None = None
        self._busy = False
        self._postponed: deque[Callable[[], None]] = deque()

    def handle(self, event: Any) -> None:
        """Handles an event, and makes a pass once the events of this moment are in.

        Raises CoschedError for an event that cannot be; nothing has changed then. Raises
        StateLost if an order is not carried out, for example because the disk is full: the
        machine counts on it."""
        self._feed(event)
        self._soon()

    def receive(self, peer: str, message: AnyMessage) -> None:
        """Handles a message of the domain ``peer``, if it is coupled with this one. The
        state is stored once for all messages of this moment, before they are answered.
        Meanwhile the machine does not change, so no order to the engine is out of date."""
        event = None if self._pairs is None else self._pairs.received(peer, message)
        if event is None:
            return
        self._received.append(event)
        if self._taking is None:
            self._taking = asyncio.get_running_loop().call_soon(self._take_received)

    def when_idle(self, work: Callable[[], None]) -> None:
        """Calls ``work`` at once, or after all orders that are being carried out. For an
        engine that reports events while it carries out an order."""
        if self._busy:
            self._postponed.append(work)
            return
        with self._carrying_out():
            work()

    def decide(self) -> None:
        """Makes the pass now that would follow the events of this moment."""
        if self._pass is not None:
            self._pass.cancel()
            self._tick()

    def freeze(self) -> None:
        """Stops all starts until ``thaw``."""
        self.frozen = True

    def thaw(self) -> None:
        """Allows starts again."""
        self.frozen = False
        self._soon()

    def close(self) -> None:
        """Makes no more passes. Messages of this moment are as if they were lost: their
        senders send them again."""
        self.freeze()
        if self._taking is not None:
            self._taking.cancel()
        self._wake(None)

    def _soon(self) -> None:
        if self._pass is None and not self.frozen:
            self._pass = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self._pass = None
        if not self.frozen:
            self._feed(Ticked(self._clock.now_ns()))

    def _feed(self, event: Any) -> None:
        what = f"the event {type(event).__name__}"
        with self._carrying_out():
            with changing(what):
                commands = self._machine.handle(event)
            with must_succeed(f"the orders after {what}"):
                self._settle(commands)

    def _take_received(self) -> None:
        self._taking = None
        events, self._received = self._received, []
        commands: list[Any] = []
        for event in events:
            commands += self._handle_received(event)
        with (
            self._carrying_out(),
            must_succeed("the orders after messages of other domains"),
        ):
            self._settle(commands)
        self._soon()

    def _handle_received(self, event: Received) -> Sequence[Any]:
        """Returns the orders after a message; none if the machine refuses it."""
        try:
            with changing(f"a message of {event.peer}"):
                return self._machine.handle(event)
        except StateLost:
            raise
        except CoschedError as error:  # it costs its sender only
            assert self._pairs is not None
            self._pairs.complain(event.peer, error)
            return ()

    def _settle(self, commands: Sequence[Any]) -> None:
        """Stores the state, then carries out commands in their order."""
        if self._pairs is not None:
            self._pairs.before(commands)
        for command in commands:
            self._pass_on(command)

    def _pass_on(self, command: Any) -> None:
        match command:
            case WakeAt():
                self._wake(command.at_ns)
            case Send() if self._pairs is not None:
                self._pairs.send(command)
            case _:
                self._carry_out(command)

    @contextmanager
    def _carrying_out(self) -> Iterator[None]:
        """Does what was postponed, once the outermost work is done."""
        if self._busy:
            yield
            return
        self._busy = True
        try:
            yield
            with must_succeed("what follows from an event"):
                while self._postponed:
                    self._postponed.popleft()()
        finally:
            self._busy = False

    def _wake(self, at_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            delay_s = max(0.0, (at_ns - self._clock.now_ns()) / NS_PER_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)
