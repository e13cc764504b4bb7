"""The timer daemon as the scheduler daemon sees it: a child to start, wake and replace.

The pipe to its standard input is both: a byte means new orders, its end means that the
scheduler daemon is dead and the timer daemon becomes the node's guardian.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO

from cosched.core.units import NS_PER_MS
from cosched.node.child import Child, start_child
from cosched.node.effects import ring
from cosched.node.loop import Loop

log = logging.getLogger(__name__)

RESTART_DELAY_NS = 100 * NS_PER_MS


class TimerProcess:
    """Keeps one timer daemon running for as long as this process lives."""

    def __init__(self, loop: Loop, arguments: Sequence[str]) -> None:
        self._loop = loop
        self._arguments = arguments
        self._child: Child | None = None
        self._stopping = False
        self._on_ready: Callable[[], None] | None = None
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The timer daemon's pid while it runs."""
        return self._child.process.pid if self._child else None

    def start(self, on_ready: Callable[[], None]) -> None:
        """Starts it; ``on_ready`` is called once it, or one that had to take its place,
        times slices and guards the node."""
        self._on_ready = on_ready
        self._start()

    def _start(self) -> None:
        module = "cosched_daemons.timer"
        child = start_child(module, self._arguments, stdout=subprocess.PIPE)
        assert child.process.stdout is not None
        self._child = child
        self._watch_readiness(child.process.stdout)
        self._loop.watch(child.pidfd, self._ended)

    def _watch_readiness(self, stdout: IO[bytes]) -> None:
        def readable() -> None:
            line = os.read(stdout.fileno(), 64)
            self._loop.unwatch(stdout.fileno())
            stdout.close()
            if not line:
                return  # it died, which its pidfd tells, too
            on_ready, self._on_ready = self._on_ready, None
            if on_ready is not None:
                on_ready()
            else:
                log.info("another timer daemon is ready")

        self._loop.watch(stdout.fileno(), readable)

    def ring(self) -> None:
        """Tells the timer daemon to read its orders."""
        if self._child is not None:
            ring(self._child.pipe)

    def stop(self) -> None:
        """Ends it and waits for its end."""
        self._stopping = True
        if self._child is not None:
            self._child.process.terminate()
            self._forget(self._child)

    def _ended(self) -> None:
        assert self._child is not None
        status = self._forget(self._child)
        self.restarts += 1
        log.warning("the timer daemon ended with status %d; starting another", status)
        self._start_later()

    def _start_later(self) -> None:
        self._loop.call_at(
            time.monotonic_ns() + min(self.restarts, 50) * RESTART_DELAY_NS,
            self._start_again,
        )

    def _start_again(self) -> None:
        if self._stopping:
            return
        try:
            self._start()
        except OSError as error:
            log.error("no timer daemon for now: %s", error)
            self._start_later()

    def _forget(self, child: Child) -> int:
        """Waits for its end and returns its status."""
        # Before its pipe is closed, or it would become the guardian.
        status = child.process.wait()
        self._child = None
        self._loop.unwatch(child.pidfd)
        child.close()
        return status
