"""The timer daemon as the scheduler daemon sees it: a child to start, wake and replace.

The pipe to its standard input is both: a byte means new orders, its end means that the
scheduler daemon is dead and the timer daemon becomes the node's guardian.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from cosched.core.units import NS_PER_MS
from cosched.node.effects import ring
from cosched.node.loop import Loop

log = logging.getLogger(__name__)

RESTART_DELAY_NS = 100 * NS_PER_MS


class TimerProcess:
    """Keeps one timer daemon running for as long as this process lives."""

    def __init__(self, loop: Loop, arguments: Sequence[str]) -> None:
        self._loop = loop
        self._arguments = arguments
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd = -1
        self._pipe = -1
        self._stopping = False
        self._on_ready: Callable[[], None] | None = None
        self.restarts = 0

    @property
    def pid(self) -> int | None:
        """The timer daemon's pid while it runs."""
        return self._process.pid if self._process else None

    def start(self, on_ready: Callable[[], None]) -> None:
        """Starts it; ``on_ready`` is called once it, or one that had to take its place,
        times slices and guards the node."""
        self._on_ready = on_ready
        self._start()

    def _start(self) -> None:
        read_end, self._pipe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._pipe, False)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cosched_daemons.timer", *self._arguments],
            stdin=read_end,
            stdout=subprocess.PIPE,
            # No module of the directory that we were started in may shadow one of ours.
            cwd="/",
        )
        os.close(read_end)
        self._watch_readiness()
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.watch(self._pidfd, self._ended)

    def _watch_readiness(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        stdout = self._process.stdout

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
        if self._pipe >= 0:
            ring(self._pipe)

    def stop(self) -> None:
        """Ends it and waits for its end."""
        self._stopping = True
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._forget()

    def _ended(self) -> None:
        assert self._process is not None
        status = self._process.wait()
        self._forget()
        if self._stopping:
            return
        self.restarts += 1
        log.warning("the timer daemon ended with status %d; starting another", status)
        self._loop.call_at(
            time.monotonic_ns() + min(self.restarts, 50) * RESTART_DELAY_NS,
            self._start_again,
        )

    def _start_again(self) -> None:
        if not self._stopping:
            self._start()

    def _forget(self) -> None:
        self._loop.unwatch(self._pidfd)
        os.close(self._pidfd)
        os.close(self._pipe)
        self._process, self._pidfd, self._pipe = None, -1, -1
