"""Waits for descriptors and times: the only place where a daemon waits."""

from __future__ import annotations

import heapq
import itertools
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable


class Loop:
    """A single-threaded event loop over epoll.

    Callbacks run one after the other. An exception in a callback ends the loop: a daemon in
    an unknown state must make no decisions. Times are CLOCK_MONOTONIC in nanoseconds,
    rounded up to a millisecond; for finer times use a timer descriptor.
    """

    def __init__(self) -> None:
        # Not selectors: a daemon runs with cold caches, and each layer costs.
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._times: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._running = False
        self._stopped = False
        self._signal_ends: tuple[socket.socket, ...] = ()

    def watch(self, fd: int, ready: Callable[[], None]) -> None:
        """Calls ``ready`` whenever ``fd`` can be read."""
        self._epoll.register(fd, select.EPOLLIN)
        self._callbacks[fd] = ready

    def watch_room(self, fd: int, ready: Callable[[], None]) -> None:
        """Calls ``ready`` whenever ``fd`` can be written; in place of ``watch``."""
        self._epoll.register(fd, select.EPOLLOUT)
        self._callbacks[fd] = ready

    def unwatch(self, fd: int) -> None:
        """Stops watching ``fd``; call it before closing ``fd``."""
        self._epoll.unregister(fd)
        del self._callbacks[fd]

    def call_at(self, at_ns: int, function: Callable[[], None]) -> None:
        """Calls ``function`` once, at ``at_ns`` or a little later."""
        heapq.heappush(self._times, (at_ns, next(self._sequence), function))

    def stop(self) -> None:
        """Ends ``run`` after the current callback."""
        self._stopped = True
        self._running = False

    def stop_on(self, numbers: Iterable[int]) -> None:
        """Ends ``run`` on these signals, also on signals that ``hold_back`` blocked.

        Only in the main thread, for one loop at a time. The interpreter restarts an
        interrupted wait, so each signal also writes a byte into a watched descriptor.
        """
        read_end, write_end = socket.socketpair()
        for end in (read_end, write_end):
            end.setblocking(False)
        signal.set_wakeup_fd(write_end.fileno(), warn_on_full_buffer=False)
        self._signal_ends = (read_end, write_end)
        numbers = list(numbers)
        for number in numbers:
            signal.signal(number, lambda *_: self.stop())
        self.watch(read_end.fileno(), lambda: _empty(read_end))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

    @property
    def stopped(self) -> bool:
        """Returns whether ``stop`` was called."""
        return self._stopped

    def run(self) -> None:
        """Waits and calls the callbacks until ``stop``, which may come before ``run``."""
        self._running = not self._stopped
        while self._running:
            ready = [
                (fd, self._callbacks[fd]) for fd, _ in self._epoll.poll(self._timeout_s())
            ]
            for fd, callback in ready:
                # An earlier callback of this round may have closed it.
                if self._callbacks.get(fd) is callback and self._running:
                    callback()
            now_ns = time.monotonic_ns()
            while self._running and self._times and self._times[0][0] <= now_ns:
                heapq.heappop(self._times)[2]()

    def close(self) -> None:
        """Closes the loop's own descriptors."""
        if self._signal_ends:
            signal.set_wakeup_fd(-1)
            for end in self._signal_ends:
                end.close()
        self._epoll.close()

    def _timeout_s(self) -> float | None:
        if not self._times:
            return None
        return max(0, self._times[0][0] - time.monotonic_ns()) / 1e9


def hold_back(numbers: Iterable[int]) -> None:
    """Blocks these signals until the next loop stops on them, for a process of one thread.

    So no signal is lost between two loops. Earlier signals are handled on return."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def _empty(end: socket.socket) -> None:
    try:
        end.recv(4096)
    except BlockingIOError:
        return
