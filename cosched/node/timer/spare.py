"""Keeps a process in reserve that restores a node whose daemons were both killed.

The timer daemon forks it, so that the two share their memory, and nothing must be started
when it counts. It waits for the end of the timer daemon, then for the end of the scheduler
daemon. A reserve whose timer daemon was killed alone ends when the next one has its own.
No process is left to act only if the reserve was killed, too; then ``cosched down`` or the
next ``cosched up`` restores the node.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.pidfd import open_pidfd
from cosched.linux.processes.signals import send_by_pidfd
from cosched.rundir.lock import DaemonLock, hold_daemon

log = logging.getLogger(__name__)

STDOUT = 1
#: An older reserve ends within milliseconds.
END_TIMEOUT_S = 10.0


class Spare:
    """The process in reserve, as the timer daemon has it."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self._line = line

    def dismiss(self) -> None:
        """Ends the process: the timer daemon has done its work."""
        with contextlib.suppress(ConnectionError), self._line:
            self._line.send(b"\1")
        os.waitpid(self.pid, 0)


def scheduler_above(stdin: int) -> int | None:
    """Returns a pidfd of the scheduler daemon that started this process, or None if it has
    ended. ``stdin``: a pipe that ends with it."""
    pidfd = open_pidfd(os.getppid())
    end = select.poll()
    end.register(stdin, 0)
    if pidfd is not None and end.poll(0):  # the parent may be another process by now
        os.close(pidfd)
        return None
    return pidfd


def start_spare(
    daemons: Sequence[int],
    timer_lock: DaemonLock,
    spare_lock: Path,
    restore: Callable[[], None],
) -> Spare:
    """Forks the process in reserve, which calls ``restore()`` when both daemons are dead.

    It returns when other processes can find the reserve by its lock.

    daemons: pidfds of this process, and of the scheduler daemon if it lives. timer_lock:
    this process's. spare_lock: the reserve's."""
    own_end, spares_end = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            own_end.close()
            timer_lock.leave_to_parent()
            _stand_by(spares_end, daemons, spare_lock, restore)
            code = 0
        except BaseException:
            log.exception("the process in reserve failed")
        finally:
            os._exit(code)
    spares_end.close()
    own_end.recv(1)  # or its end, if the reserve failed: then there is none
    return Spare(pid, own_end)


def _stand_by(
    line: socket.socket,
    daemons: Sequence[int],
    spare_lock: Path,
    restore: Callable[[], None],
) -> None:
    """Waits until this process is needed; returns if it never will be."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    # The scheduler daemon reads the timer daemon's output to its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), STDOUT)
    lock = DaemonLock(spare_lock)
    while not lock.acquire():
        _end_older(spare_lock)
    try:
        with contextlib.suppress(ConnectionError):  # the timer daemon is dead
            line.send(b"\1")
            if line.recv(1):
                return  # dismissed
        # The line of a dying daemon may end before its lock does.
        for pidfd in daemons:
            select.select([pidfd], [], [])
        restore()
    finally:
        lock.release()


def _end_older(spare_lock: Path) -> None:
    """Ends the reserve of a timer daemon that was killed."""
    older = hold_daemon(spare_lock)
    if older is None:
        return
    try:
        send_by_pidfd(older, signal.SIGTERM)
        if not select.select([older], [], [], END_TIMEOUT_S)[0]:
            raise CoschedError(f"{spare_lock}: an older process in reserve does not end")
    finally:
        os.close(older)
