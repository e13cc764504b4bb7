"""Holds processes by descriptor, so that a signal never reaches a reused pid."""

from __future__ import annotations

import errno
import os
import select
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc


def open_pidfd(pid: int) -> int | None:
    """Opens a descriptor of the process; returns None if it is gone.

    The descriptor is closed on exec. It becomes readable when the process ends.
    """
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise CoschedError("pidfd_open: needs Linux 5.3 or newer") from None
        if error.errno == errno.EINVAL:  # a thread's id, or not an id at all
            raise CoschedError(f"pid {pid}: is not the id of a process") from None
        raise CoschedError(f"pid {pid}: {error.strerror}") from None


def open_identified(pid: int, start_ticks: int, root: Path = proc.ROOT) -> int | None:
    """Opens the process with this ``pid`` that started at ``start_ticks``, or returns None.

    The start is compared after opening, so the descriptor is surely the right one.
    """
    pidfd = open_pidfd(pid)
    if pidfd is not None and proc.start_ticks(pid, root) != start_ticks:
        os.close(pidfd)
        return None
    return pidfd


def exited(pidfd: int) -> bool:
    """Returns whether the process has ended, reaped or not."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
