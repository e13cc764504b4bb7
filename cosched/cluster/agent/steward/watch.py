"""Waits for a steward's descriptors, and calls what belongs to those that are ready."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Callable


class Watch:
    """The descriptors that are watched, and what to call for each.

    It does less than ``selectors``: while a job starts, each of its tasks asks its steward
    hundreds of times.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}

    def __contains__(self, descriptor: int) -> bool:
        return descriptor in self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def read(self, descriptor: int, call: Callable[[], object]) -> None:
        """Calls ``call`` whenever the descriptor can be read. A call that returns False
        has closed the descriptor, which is then not watched any more."""
        self._add(descriptor, call, select.EPOLLIN)

    def write(self, descriptor: int, call: Callable[[], object]) -> None:
        """Calls ``call`` whenever the descriptor can be written."""
        self._add(descriptor, call, select.EPOLLOUT)

    def stop(self, descriptor: int) -> Callable[[], object]:
        """Watches a descriptor no more; returns what was called for it."""
        with contextlib.suppress(OSError):  # it may be closed
            self._epoll.unregister(descriptor)
        return self._calls.pop(descriptor)

    def wait(self, timeout_s: float | None) -> None:
        """Waits until a descriptor is ready, and makes the calls. None: for ever."""
        ready = self._epoll.poll(timeout_s)
        calls = [(each, self._calls[each]) for each, _ in ready if each in self._calls]
        for descriptor, call in calls:
            # An earlier call may have stopped it, and its number may be another one's now.
            if self._calls.get(descriptor) is call and call() is False:
                self.stop(descriptor)

    def _add(self, descriptor: int, call: Callable[[], object], events: int) -> None:
        self._epoll.register(descriptor, events)
        self._calls[descriptor] = call
