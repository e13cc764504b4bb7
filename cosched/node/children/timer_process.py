"""Runs the timer daemon as a child of the scheduler daemon: starts, wakes, replaces it.

A byte on its standard input means new orders. The end of its standard input means that the
scheduler daemon is dead; the timer daemon then becomes the node's guardian.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Callable, Sequence
from typing import IO

from cosched.core.units import NS_PER_MS
from cosched.node.bell import ring
from cosched.node.children.kept_child import Child, KeptChild, start_child
from cosched.service.loop import Loop

log = logging.getLogger(__name__)

RESTART_DELAY_NS = 100 * NS_PER_MS


class TimerProcess(KeptChild):
    """Keeps one timer daemon running for as long as this process lives."""

    def __init__(self, loop: Loop, arguments: Sequence[str]) -> None:
        super().__init__(loop, "timer daemon", RESTART_DELAY_NS)
        self._arguments = arguments
        self._on_ready: Callable[[], None] | None = None

    def report_ready_to(self, on_ready: Callable[[], None]) -> None:
        """Calls ``on_ready`` once, when the daemon or its replacement is ready."""
        self._on_ready = on_ready

    def ring(self) -> None:
        """Makes the timer daemon read its orders."""
        if self.pipe is not None:
            ring(self.pipe)

    def _launch(self) -> Child:
        module = "cosched_daemons.timer"
        child = start_child(module, self._arguments, stdout=subprocess.PIPE)
        assert child.process.stdout is not None
        self._watch_readiness(child.process.stdout)
        return child

    def _watch_readiness(self, stdout: IO[bytes]) -> None:
        def readable() -> None:
            line = os.read(stdout.fileno(), 64)
            self._loop.unwatch(stdout.fileno())
            stdout.close()
            if not line:
                return  # it died; its pidfd reports that too
            on_ready, self._on_ready = self._on_ready, None
            if on_ready is not None:
                on_ready()
            else:
                log.info("another timer daemon is ready")

        self._loop.watch(stdout.fileno(), readable)
