"""Waits for descriptors and times: the only place where a daemon waits."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable


class Watch:
    """The descriptors that are watched, and what to call for each.

    It does less than ``selectors``: a daemon runs with cold caches, and while a job starts,
    each of its tasks asks its steward hundreds of times.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[], object]] = {}

    def __contains__(self, fd: int) -> bool:
        return fd in self._callbacks

    def __len__(self) -> int:
        return len(self._callbacks)

    def watch(self, fd: int, ready: Callable[[], object]) -> None:
        """Calls ``ready`` whenever ``fd`` can be read. A call that returns False has closed
        the descriptor, which is then not watched any more."""
        self._add(fd, ready, select.EPOLLIN)

    def watch_room(self, fd: int, ready: Callable[[], object]) -> None:
        """Calls ``ready`` whenever ``fd`` can be written; in place of ``watch``."""
        self._add(fd, ready, select.EPOLLOUT)

    def unwatch(self, fd: int) -> Callable[[], object]:
        """Stops watching ``fd``; returns what was called for it."""
        with contextlib.suppress(OSError):  # it may be closed
            self._epoll.unregister(fd)
        return self._callbacks.pop(fd)

    def wait(self, timeout_s: float | None) -> None:
        """Waits until a descriptor is ready, and makes the calls. None: for ever."""
        callbacks = self._callbacks
        ready = [
            (fd, callbacks[fd]) for fd, _ in self._epoll.poll(timeout_s) if fd in callbacks
        ]
        for fd, callback in ready:
            # An earlier call may have closed it, and its number may be another one's now.
            if callbacks.get(fd) is callback and self.goes_on and callback() is False:
                self.unwatch(fd)

    @property
    def goes_on(self) -> bool:
        """Whether further calls are made in this round."""
        return True

    def _add(self, fd: int, ready: Callable[[], object], events: int) -> None:
        self._epoll.register(fd, events)
        self._callbacks[fd] = ready


class Loop(Watch):
    """A single-threaded event loop over epoll.

    Callbacks run one after the other. An exception in a callback ends the loop: a daemon in
    an unknown state must make no decisions. Times are CLOCK_MONOTONIC in nanoseconds,
    rounded up to a millisecond; for finer times use a timer descriptor.
    """

    def __init__(self) -> None:
        super().__init__()
        self._times: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._running = False
        self._stopped = False
        self._signal_ends: tuple[socket.socket, ...] = ()

    def call_at(self, at_ns: int, function: Callable[[], None]) -> None:
        """Calls ``function`` once, at ``at_ns`` or a little later."""
        heapq.heappush(self._times, (at_ns, next(self._sequence), function))

    def stop(self) -> None:
        """Ends ``run`` after the current callback."""
        self._stopped = True
        self._running = False

    def stop_on(
        self, numbers: Iterable[int], note: Callable[[int], object] = lambda _number: None
    ) -> None:
        """Ends ``run`` on these signals, also on signals that ``hold_back`` blocked. note:
        called with the number of a signal before.

        Only in the main thread, for one loop at a time. The interpreter restarts an
        interrupted wait, so each signal also writes a byte into a watched descriptor.
        """
        read_end, write_end = socket.socketpair()
        for end in (read_end, write_end):
            end.setblocking(False)
        signal.set_wakeup_fd(write_end.fileno(), warn_on_full_buffer=False)
        self._signal_ends = (read_end, write_end)

        def stop(number: int, _frame: object) -> None:
            note(number)
            self.stop()

        numbers = list(numbers)
        for number in numbers:
            signal.signal(number, stop)
        self.watch(read_end.fileno(), lambda: _empty(read_end))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)

    @property
    def goes_on(self) -> bool:
        return self._running

    @property
    def stopped(self) -> bool:
        """Returns whether ``stop`` was called."""
        return self._stopped

    def run(self) -> None:
        """Waits and calls the callbacks until ``stop``, which may come before ``run``."""
        self._running = not self._stopped
        while self._running:
            self.wait(self._timeout_s())
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
