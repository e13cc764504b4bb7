"""Drives the queue in real time: makes a pass after each event, and when its time comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cosched.cluster.controller.clock import DomainClock
from cosched.core.cluster.queue.domain import EndJob, Event, SharingChanged
from cosched.core.cluster.queue.messages import StartJob, Ticked, WakeAt
from cosched.core.cluster.queue.rows import SharedQueue
from cosched.core.units import NS_PER_S


class QueueDriver:
    """Feeds ``queue``. carry_out: starts or ends a job.

    frozen: while True no job starts, because the controller recovers.
    """

    def __init__(
        self,
        queue: SharedQueue,
        clock: DomainClock,
        carry_out: Callable[[StartJob | EndJob], None],
    ) -> None:
        self.frozen = True
        self._queue = queue
        self._clock = clock
        self._carry_out = carry_out
        self._timer: asyncio.TimerHandle | None = None
        self._pass: asyncio.Handle | None = None

    def handle(self, event: Event | SharingChanged) -> None:
        """Takes an event, and makes a pass once the events of this moment are in."""
        self._feed(event)
        self._soon()

    def decide(self) -> None:
        """Makes the pass now that would follow the events of this moment."""
        if self._pass is not None:
            self._pass.cancel()
            self._tick()

    def thaw(self) -> None:
        """Lets jobs start: the recovery is over."""
        self.frozen = False
        self._soon()

    def _soon(self) -> None:
        if self._pass is None and not self.frozen:
            self._pass = asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        self._pass = None
        self._feed(Ticked(self._clock.now_ns()))

    def _feed(self, event: Event | SharingChanged) -> None:
        for command in self._queue.handle(event):
            if isinstance(command, WakeAt):
                self._wake(command.at_ns)
            elif isinstance(command, StartJob | EndJob):
                self._carry_out(command)

    def _wake(self, at_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            delay_s = max(0.0, (at_ns - self._clock.now_ns()) / NS_PER_S)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)
