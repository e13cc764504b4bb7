"""Sends a signal to processes and all processes that they started.

Limits. SIGCONT also continues a process that its user stopped by hand. A parent may receive
a report about its stopped child (SIGCHLD, WUNTRACED).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cosched.linux import pidfd, proc
from cosched.linux.processes.signals import send_by_pidfd

# Processes may fork while they are stopped; the next round reaches the children.
_ROUNDS = 50


def signal_trees(roots: Mapping[int, int], signum: int, root: Path = proc.ROOT) -> None:
    """Signals these processes and their descendants, each once.

    ``roots``: start times by pid; another process with the same pid is not touched.
    One of another user is left out."""
    done: set[tuple[int, int]] = set()
    for _ in range(_ROUNDS):
        newcomers = _tree(roots, root) - done
        if not newcomers:
            return
        for pid, start_ticks in newcomers:
            fd = pidfd.open_identified(pid, start_ticks, root)
            if fd is None:
                continue
            try:
                send_by_pidfd(fd, signum)
            finally:
                os.close(fd)
        done |= newcomers


def _tree(roots: Mapping[int, int], root: Path) -> set[tuple[int, int]]:
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
            waiting += children.get(pid, [])
    return found
