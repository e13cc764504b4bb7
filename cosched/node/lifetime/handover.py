"""Waits for the daemons of a node: until one answers, the lock is free, or one ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

from cosched.core.errors import CoschedError, NoDaemon
from cosched.linux.processes.signals import Delivery, send_by_pidfd
from cosched.node.sockets.client import request
from cosched.rundir.lock import DaemonLock, hold_daemon, lock_holder
from cosched.rundir.paths import NodePaths

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
AWAIT_S = 0.02
UP_ALREADY = "its daemons are up already"


def wait_readable(fd: int | None, timeout_s: float) -> bool:
    """Waits for the descriptor, if any; returns False after ``timeout_s``."""
    return bool(select.select([] if fd is None else [fd], [], [], timeout_s)[0])


class Patience:
    """Waits for the daemon that holds a node's lock, for ``timeout_s`` in all."""

    def __init__(
        self,
        paths: NodePaths,
        timeout_s: float = START_TIMEOUT_S,
        wait: Callable[[int | None, float], object] = wait_readable,
    ) -> None:
        self._paths = paths
        self._timeout_s = timeout_s
        self._wait = wait
        self._deadline = time.monotonic() + timeout_s

    def await_change(self) -> None:
        """Waits for a moment, or for the end of the daemon that holds the lock.

        CoschedError when the time is over."""
        paths = self._paths
        daemon = hold_daemon(paths.scheduler_lock)
        try:
            if time.monotonic() > self._deadline:
                raise CoschedError(
                    f"node {paths.node}: the scheduler daemon (pid "
                    f"{lock_holder(paths.scheduler_lock)}) neither answered nor ended in "
                    f"{self._timeout_s:g} s; see {paths.log}"
                )
            self._wait(daemon, AWAIT_S)
        finally:
            if daemon is not None:
                os.close(daemon)


def lock_node(paths: NodePaths, patience: Patience | None = None) -> DaemonLock:
    """Takes the lock of the node's scheduler daemon; CoschedError if daemons are up.

    It waits for a daemon or a guardian that is about to end. A daemon that answers is up
    also without the lock: its file may have been removed."""
    lock = DaemonLock(paths.scheduler_lock)
    patience = patience or Patience(paths)
    while True:
        mine = lock.acquire()
        try:
            _expect_no_answer(paths)
        except CoschedError:
            lock.release()
            raise
        if mine:
            return lock
        patience.await_change()


def _expect_no_answer(paths: NodePaths) -> None:
    """Raises CoschedError if a daemon answers, or is too busy to answer."""
    with contextlib.suppress(NoDaemon):
        pid = request(paths, "status")["pid"]
        raise CoschedError(f"{UP_ALREADY} (pid {pid})")


def end_orphans(paths: NodePaths) -> None:
    """Ends the child processes of a dead scheduler daemon."""
    left = True
    while left:  # a process in reserve may have waited for an older one's end
        left = False
        for lock, what in (
            (paths.timer_lock, "timer daemon"),
            (paths.spare_lock, "process in reserve"),
            (paths.metrics_lock, "metrics server"),
        ):
            daemon = hold_daemon(lock)
            if daemon is None:
                continue
            left = True
            try:
                _end(daemon, lock)
                await_end(daemon, f"node {paths.node}: the old {what}")
            finally:
                os.close(daemon)


def _end(daemon: int, lock: Path) -> None:
    if send_by_pidfd(daemon, signal.SIGTERM) is Delivery.FOREIGN:
        raise CoschedError(
            f"{lock}: names a process of another user; end its daemon by hand"
        )


def await_end(daemon: int, what: str) -> None:
    """Waits for the end of a process, held by pidfd; CoschedError if it takes too long."""
    if not wait_readable(daemon, STOP_TIMEOUT_S):
        raise CoschedError(f"{what} did not end in {STOP_TIMEOUT_S:g} s")
