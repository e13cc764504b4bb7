"""Stops and continues every process of a control group, or of trees of processes.

Version 2 has ``cgroup.freeze``. It also stops processes that are forked or moved into the
group; killed processes still end; a process that is moved out continues. The freezer of
version 1 is a separate hierarchy, which batch systems use, and its frozen processes cannot
be killed. So version 1 uses SIGSTOP and SIGCONT. ``signal_trees`` sends them to tasks
without a class in a group, and to all processes that they started.

Limits of the signals. They also continue a process that its user stopped by hand. A parent
may receive a report about its stopped child (SIGCHLD, WUNTRACED).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from cosched.linux import pidfd, proc
from cosched.linux.cgroups.cgroupfs import members, write
from cosched.linux.processes.signals import send_by_pidfd

_FREEZE = "cgroup.freeze"
# Processes may fork while they are stopped; the next round reaches the children.
_ROUNDS = 50


def freeze(group: Path) -> None:
    """Stops all processes of the group. OSError passes; CoschedError without pidfd."""
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
    """Continues all processes of the group; does nothing if the group is gone."""
    if (group / _FREEZE).exists():
        write(group / _FREEZE, "0")
        return
    for pid in members(group):
        _signal_member(group, pid, signal.SIGCONT)


def thaw_removed(group: Path, pid: int, start_ticks: int) -> None:
    """Continues a process that was moved out of a frozen group.

    Another process that got its pid meanwhile is not touched."""
    if (group / _FREEZE).exists():
        return
    _send(pidfd.open_identified(pid, start_ticks), signal.SIGCONT)


def signal_trees(
    roots: Mapping[int, int],
    signum: int,
    root: Path = proc.ROOT,
    without: Collection[int] = (),
) -> None:
    """Signals these processes and their descendants, each once.

    ``roots``: start times by pid; another process with the same pid is not touched.
    One of another user is left out, and so are those in ``without`` and the descendants of
    these."""
    done: set[tuple[int, int]] = set()
    for _ in range(_ROUNDS):
        newcomers = _tree(roots, root, without) - done
        if not newcomers:
            return
        for pid, start_ticks in newcomers:
            _send(pidfd.open_identified(pid, start_ticks, root), signum)
        done |= newcomers


def _tree(
    roots: Mapping[int, int], root: Path, without: Collection[int]
) -> set[tuple[int, int]]:
    """Returns pid and start time of the roots that live and of their descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(root / "proc"):
        if name.isdigit():
            parent = proc.parent(proc.integer(name), root)
            children.setdefault(parent or 0, []).append(proc.integer(name))
    found: set[tuple[int, int]] = set()
    waiting = [pid for pid, start in roots.items() if proc.start_ticks(pid, root) == start]
    while waiting:
        pid = waiting.pop()
        start_ticks = proc.start_ticks(pid, root)
        if start_ticks is not None and (pid, start_ticks) not in found:
            found.add((pid, start_ticks))
            waiting += [c for c in children.get(pid, []) if c not in without]
    return found


def _signal_member(group: Path, pid: int, number: int) -> None:
    # Membership is checked after the pidfd is open: the pid may have been reused before.
    _send(pidfd.open_pidfd(pid), number, lambda: pid in members(group))


def _send(fd: int | None, number: int, is_meant: Callable[[], bool] = lambda: True) -> None:
    if fd is None:
        return
    try:
        if is_meant():
            send_by_pidfd(fd, number)
    finally:
        os.close(fd)
