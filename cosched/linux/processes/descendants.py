"""Kills the descendants of this process, which adopts orphans (``prctl.adopt_orphans``).

A process may fork and end at once, again and again, so that its pid is gone before a signal
reaches it. Its end makes this process the parent of its child. So all that lives of a tree
comes here at last, and the kernel lists it as children.

Meanwhile this process ignores SIGCHLD, so the kernel reaps its dead children itself: the
list has only what lives. One sweep reads the list and kills what is there, in less than a
millisecond for hundreds of processes. The next sweep, at once, finds the processes that
came meanwhile. Fewer processes fork with each sweep, so the sweeps come to an end. No sweep
is needed for processes in a control group (``cgroups.killgroup``).

Limits: a process that has taken the rights of another user is not killed; it is returned.
The CPU time of what is killed is not counted as that of children.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from cosched.linux import proc
from cosched.linux.pidfd import open_pidfd
from cosched.linux.processes.handlers import handled
from cosched.linux.processes.signals import Delivery, send
from cosched.linux.users import find_user_name

#: How many dead processes are reaped before a process does something else.
REAPED_AT_ONCE = 1024


class Left(NamedTuple):
    """Descendants that are left, by their process ids."""

    foreign: set[int]  #: they belong to another user
    ending: set[int]  #: they were killed, but have not ended yet


def kill_descendants(within_s: float, kept: Collection[int] = ()) -> Left:
    """Kills and reaps the descendants of this process, from its main thread. Returns those
    that are left after this time. kept: children that are not killed, nor their
    descendants; their ends are reaped, too."""
    me = os.getpid()
    deadline = time.monotonic() + within_s
    before: set[int] = set()
    with _reaped_by_the_kernel():
        while True:
            found = proc.children(me).difference(kept)
            sent = {pid: send(pid, signal.SIGKILL) for pid in found}
            foreign = {pid for pid in found if sent[pid] is Delivery.FOREIGN}
            if found == foreign or time.monotonic() >= deadline:
                return Left(foreign, found - foreign)
            if found <= before:
                _wait_for_one(found - foreign, deadline)
            before = found


@contextlib.contextmanager
def _reaped_by_the_kernel() -> Iterator[None]:
    """Lets the kernel reap children that end meanwhile, and reaps the dead."""
    with handled([signal.SIGCHLD], signal.SIG_IGN):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0] != 0:
                pass
        yield


def _wait_for_one(killed: Iterable[int], deadline: float) -> None:
    """Waits until a process that was killed has ended."""
    pidfd = open_pidfd(min(killed))
    if pidfd is None:
        return
    try:
        select.select([pidfd], [], [], max(0.0, deadline - time.monotonic()))
    finally:
        os.close(pidfd)


def describe_foreign(pid: int) -> str:
    """Returns a few words about a process of another user: its pid, program and user."""
    program = (proc.read_of(pid, "comm") or "").strip()
    uids = proc.process_uids(pid)
    name = f" ({program!a})" if program else ""
    return (
        f"process {pid}{name} of user {find_user_name(uids[1]) or uids[1]}"
        if uids
        else f"{pid}{name}"
    )
