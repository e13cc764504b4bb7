"""Keeps a child process running as long as its daemon: restarts it when it ends."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod

from cosched.core.complaints import Complaints
from cosched.node.children.child import Child
from cosched.service.loop import Loop

log = logging.getLogger(__name__)

#: The most delays before a restart. After a longer life a child counts as the first.
MOST_DELAYS = 50


class KeptChild(ABC):
    """Starts a child and restarts it when it ends.

    name: the child's name in the log. delay_ns: the delay before the first restart. Each
    further restart in a row, and each try that fails, adds one more delay. So a broken
    child does not load the node, and it does not fill the log. restarts: how often it
    ended.
    """

    def __init__(self, loop: Loop, name: str, delay_ns: int) -> None:
        self._loop = loop
        self._name = name
        self._delay_ns = delay_ns
        self._child: Child | None = None
        self._stopping = False
        self._started_ns = 0
        self._in_a_row = 0
        self._complaints = Complaints(log.warning, time.monotonic_ns)
        self.restarts = 0

    @abstractmethod
    def _launch(self) -> Child:
        """Starts the child once; may raise OSError."""

    @property
    def pid(self) -> int | None:
        """Returns the child's pid while it runs."""
        return self._child.process.pid if self._child else None

    @property
    def pipe(self) -> int | None:
        """Returns the daemon's end of the child's standard input while it runs."""
        return self._child.pipe if self._child else None

    def start(self) -> None:
        """Starts the first child; raises OSError if that fails. Later errors are logged."""
        self._child = self._launch()
        self._started_ns = time.monotonic_ns()
        self._loop.watch(self._child.pidfd, self._ended)

    def stop(self) -> None:
        """Ends the child and waits for its end."""
        self._stopping = True
        if self._child is not None:
            self._child.process.terminate()
            self._forget(self._child)

    def _ended(self) -> None:
        assert self._child is not None
        status = self._forget(self._child)
        lived_ns = time.monotonic_ns() - self._started_ns
        self._in_a_row = self._in_a_row if lived_ns < MOST_DELAYS * self._delay_ns else 0
        self.restarts += 1
        what = f"the {self._name} has ended and is started again"
        self._complaints.about(None, what, f"status {status}")
        self._start_later()

    def _start_later(self) -> None:
        self._in_a_row += 1
        delay_ns = min(self._in_a_row, MOST_DELAYS) * self._delay_ns
        self._loop.call_at(time.monotonic_ns() + delay_ns, self._start_again)

    def _start_again(self) -> None:
        if self._stopping:
            return
        try:
            self.start()
        except OSError as error:
            self._complaints.about(None, f"no {self._name} for now", str(error))
            self._start_later()

    def _forget(self, child: Child) -> int:
        """Waits for its end and returns its status."""
        # Before its pipe is closed: otherwise a timer daemon would become the guardian.
        status = child.process.wait()
        self._child = None
        self._loop.unwatch(child.pidfd)
        child.close()
        return status
