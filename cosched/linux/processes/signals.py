"""Sends signals and names them.

A process may have taken the rights of another user, for example by sudo. It takes no signal
of this user then. That is no fault of cosched, so no function here raises an error for it:
each returns the fate of the signal. All signals of cosched to other processes are sent
here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

#: The first half of the real-time signals is counted from the first, as in bash.
_FROM_FIRST = 15


class Delivery(Enum):
    """The fate of a signal. ENDED: the process has ended. FOREIGN: it belongs to another
    user, so this process may not send it signals."""

    SENT = "sent"
    ENDED = "ended"
    FOREIGN = "foreign"


def send(pid: int, number: int) -> Delivery:
    """Sends a signal to a process. The caller makes sure that the pid is not reused."""
    return _deliver(lambda: os.kill(pid, number))


def send_to_group(group: int, number: int) -> Delivery:
    """Sends a signal to the processes of a process group. FOREIGN: to none of them."""
    return _deliver(lambda: os.killpg(group, number))


def send_by_pidfd(pidfd: int, number: int) -> Delivery:
    """Sends a signal to the process that a descriptor holds."""
    return _deliver(lambda: signal.pidfd_send_signal(pidfd, number))


def send_to_child(child: subprocess.Popen[Any], number: int) -> Delivery:
    """Sends a signal to a child of this process."""
    if child.poll() is not None:
        return Delivery.ENDED
    return _deliver(lambda: child.send_signal(number))


def _deliver(call: Callable[[], None]) -> Delivery:
    try:
        call()
    except ProcessLookupError:
        return Delivery.ENDED
    except PermissionError:
        return Delivery.FOREIGN
    return Delivery.SENT


def signal_name(number: int) -> str:
    """Returns the name of a signal, as bash prints it: SIGTERM, SIGRTMIN+6."""
    first, last = signal.SIGRTMIN.value, signal.SIGRTMAX.value
    if first < number < last:
        if number - first <= _FROM_FIRST:
            return f"SIGRTMIN+{number - first}"
        return f"SIGRTMAX-{last - number}"
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
