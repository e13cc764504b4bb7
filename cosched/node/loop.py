"""The one place where a daemon waits: descriptors and times, nothing else."""

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

    Callbacks run one after the other; one that raises ends the loop, for a daemon in an
    unknown state must not go on deciding. Times are CLOCK_MONOTONIC in nanoseconds and
    rounded up to a millisecond: use a timer descriptor where that is too coarse.
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
        """Forgets ``fd``; call it before closing."""
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
        """Ends ``run`` on these signals, and on those that ``hold_back`` kept; only in the
        main thread, for one loop at a time.

        The interpreter restarts an interrupted wait, so a signal must also be a byte in
        a descriptor that is waited for.
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
        """Whether it was told to stop."""
        return self._stopped

    def run(self) -> None:
        """Waits and calls until ``stop``, also one that came before."""
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
        """Closes what the loop itself opened."""
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
    """Keeps these signals back until the next loop stops on them, so that none is lost on
    the way from one loop to another; for a process of one thread. What came before has been
    heard when this returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


def _empty(end: socket.socket) -> None:
    try:
        end.recv(4096)
    except BlockingIOError:
        return
