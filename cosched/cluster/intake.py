"""Receives messages from a ZeroMQ socket in the loop, and limits the time of each sender.

The socket serves its senders in turn, and rests as a whole: a rest that one sender has
caused delays the next message of another one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import zmq

from cosched.core.units import NS_PER_MS, NS_PER_S, NS_PER_US
from cosched.service.allowance import LONG_REST, MALFORMED_TIMES, Allowance

#: Messages that are taken before other work of the loop.
_AT_A_TIME = 64
#: The messages of one sender may take this much time at once, and a 25th of the time
#: in the long run.
BURST_NS = 50 * NS_PER_MS
#: The most rest that one message needs: other senders wait, too.
LONGEST_NS = 2 * NS_PER_MS
#: The shortest rest. Each one wakes the loop and libzmq's thread, for which no sender is
#: charged, so two messages of a flood share one. Another sender waits no longer than with a
#: rest after each of them: its message comes next after the rest.
SHORTEST_NS = 3 * NS_PER_MS
#: Each message costs this much beside its handling: a thread of libzmq decrypts it, and the
#: loop wakes up.
ARRIVAL_NS = 20 * NS_PER_US


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that was taken."""

    sender: str  #: its name
    useless: bool = False  #: it was dropped


class Intake:
    """Calls ``take`` for each message of a socket.

    take: handles the next message; returns None if there is none.
    """

    def __init__(self, socket: zmq.Socket[bytes], take: Callable[[], Taken | None]) -> None:
        self._socket = socket
        bell = socket.getsockopt(zmq.FD)
        assert isinstance(bell, int)
        self._bell = bell
        self._take = take
        self._accounts = Allowance(BURST_NS, LONG_REST)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._waits = False  # for the bell; otherwise it takes messages or rests

    async def run(self) -> None:
        """Receives messages for ever. Raises an error of ``take``."""
        self._take_some()
        try:
            await self._ended
        finally:
            self._loop.remove_reader(self._bell)

    def _take_some(self) -> None:
        """Receives some messages. libzmq does not ring again for those that are left."""
        began_ns = time.thread_time_ns()  # a wait for the disk counts nothing
        for _ in range(_AT_A_TIME):
            if self._ended.done():
                return
            try:
                taken = self._take()
            except Exception as error:  # noqa: BLE001  (the awaiting task raises it)
                self._ended.set_exception(error)
                return
            if taken is None:
                self._wait()
                return
            now_ns = time.thread_time_ns()
            rest_ns = self._charge(taken, ARRIVAL_NS + now_ns - began_ns)
            began_ns = now_ns
            if rest_ns >= SHORTEST_NS:
                self._rest(rest_ns)
                return
        self._stop_waiting()
        self._loop.call_soon(self._take_some)

    def _charge(self, taken: Taken, took_ns: int) -> int:
        """Returns how long the socket must rest after a message."""
        took_ns *= MALFORMED_TIMES if taken.useless else 1
        most_ns = LONGEST_NS // LONG_REST
        return self._accounts.charge(
            taken.sender, min(took_ns, most_ns), time.monotonic_ns()
        )

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self._loop.add_reader(self._bell, self._take_some)

    def _stop_waiting(self) -> None:
        if self._waits:
            self._waits = False
            self._loop.remove_reader(self._bell)

    def _rest(self, rest_ns: int) -> None:
        self._stop_waiting()
        self._loop.call_later(rest_ns / NS_PER_S, self._go_on)

    def _go_on(self) -> None:
        # This notes all senders with messages; libzmq itself does so every 100 messages.
        self._socket.getsockopt(zmq.EVENTS)
        self._take_some()
