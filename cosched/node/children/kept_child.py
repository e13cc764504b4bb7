"""A child that is there for as long as its daemon: one that ends is replaced."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from cosched.node.children.child import Child
from cosched.node.loop import Loop

log = logging.getLogger(__name__)

#: However often a child ended, it is replaced after so many delays; and one that lived
#: for longer than that counts as the first.
MOST_DELAYS = 50


class KeptChild:
    """Starts a child by ``launch``, which may raise OSError, and whenever it has ended.

    name: as the log calls it. delay_ns: before it is replaced for the first time; for each
    further time in a row one more of it, so that one that cannot live does not keep the
    node busy.
    """

    def __init__(
        self, loop: Loop, name: str, launch: Callable[[], Child], delay_ns: int
    ) -> None:
        self._loop = loop
        self._name = name
        self._launch = launch
        self._delay_ns = delay_ns
        self._child: Child | None = None
        self._stopping = False
        self._started_ns = 0
        self._in_a_row = 0
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The child's pid while it runs."""
        return self._child.process.pid if self._child else None

    @property
    def pipe(self) -> int | None:
        """Our end of the child's standard input while it runs."""
        return self._child.pipe if self._child else None

    def start(self) -> None:
        """The first child; OSError if it cannot be had. What comes after is only logged."""
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
        self._in_a_row += 1
        self.restarts += 1
        log.warning("the %s ended with status %d; starting another", self._name, status)
        self._start_later()

    def _start_later(self) -> None:
        delay_ns = min(self._in_a_row, MOST_DELAYS) * self._delay_ns
        self._loop.call_at(time.monotonic_ns() + delay_ns, self._start_again)

    def _start_again(self) -> None:
        if self._stopping:
            return
        try:
            self.start()
        except OSError as error:
            log.error("no %s for now: %s", self._name, error)
            self._start_later()

    def _forget(self, child: Child) -> int:
        """Waits for its end and returns its status."""
        # Before its pipe is closed: a timer daemon would become the guardian.
        status = child.process.wait()
        self._child = None
        self._loop.unwatch(child.pidfd)
        child.close()
        return status
