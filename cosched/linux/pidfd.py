"""Processes held by descriptor: a signal reaches this process or none, never a namesake."""

from __future__ import annotations

import errno
import os
import select
import signal
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc


def open_pidfd(pid: int) -> int | None:
    """A descriptor of the process, None when it is gone.

    Descriptors are closed on exec. Readable means that the process has ended.
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
    """The same for the process that had ``pid`` and started at ``start_ticks``.

    The start is compared after opening: once it fits, the descriptor is the right one.
    """
    pidfd = open_pidfd(pid)
    if pidfd is not None and proc.start_ticks(pid, root) != start_ticks:
        os.close(pidfd)
        return None
    return pidfd


def send_signal(pidfd: int, signum: int) -> bool:
    """Sends a signal; False when the process has ended. PermissionError as it comes."""
    try:
        signal.pidfd_send_signal(pidfd, signum)
    except ProcessLookupError:
        return False
    return True


def exited(pidfd: int) -> bool:
    """Whether the process has ended (it may not be reaped yet)."""
    poller = select.poll()
    poller.register(pidfd, select.POLLIN)
    return bool(poller.poll(0))
