"""Stops and continues every process of a control group.

Version 2 has ``cgroup.freeze``: whoever is forked into the group or moved there stands
still, too, a killed process ends all the same, and whoever is moved out goes on. Version 1
has a freezer that is a hierarchy of its own, in which batch systems keep groups of theirs,
and in which a frozen process cannot even be killed: there we send SIGSTOP and SIGCONT.

Limits of the signals. A process that its user had stopped by hand is continued as well. A
parent that asked for it hears of its stopped child (SIGCHLD, WUNTRACED).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from cosched.linux import pidfd
from cosched.linux.cgroups.cgroupfs import members, write

_FREEZE = "cgroup.freeze"
# A group whose processes fork while they are being stopped needs another round.
_ROUNDS = 50


def freeze(group: Path) -> None:
    """Stops all processes of the group. OSError as it comes; CoschedError without pidfd."""
    if (group / _FREEZE).exists():
        write(group / _FREEZE, "1")
        return
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        newcomers = set(members(group)) - stopped
        if not newcomers:
            return
        for pid in newcomers:
            _signal_member(group, pid, signal.SIGSTOP)
        stopped |= newcomers


def thaw(group: Path) -> None:
    """Continues all processes of the group; of one that is gone, none."""
    if (group / _FREEZE).exists():
        write(group / _FREEZE, "0")
        return
    for pid in members(group):
        _signal_member(group, pid, signal.SIGCONT)


def let_go(group: Path, pid: int, start_ticks: int) -> None:
    """Continues the process that was moved out of a group that is frozen, and started then:
    nobody who has its number by now."""
    if (group / _FREEZE).exists():
        return
    _send(pidfd.open_identified(pid, start_ticks), signal.SIGCONT)


def _signal_member(group: Path, pid: int, number: int) -> None:
    # Looked up again once it is held: by then the number may be somebody else's.
    _send(pidfd.open_pidfd(pid), number, lambda: pid in members(group))


def _send(fd: int | None, number: int, is_meant: Callable[[], bool] = lambda: True) -> None:
    if fd is None:
        return
    try:
        if is_meant():
            pidfd.send_signal(fd, number)
    finally:
        os.close(fd)
