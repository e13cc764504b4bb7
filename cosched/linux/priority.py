"""Raises the priority of daemons, so that jobs cannot starve them.

The daemons of a node decide within milliseconds. SCHED_FIFO at priority 1, if allowed, runs
before every task of every class. It is reset on fork, so the daemon's children do not
inherit it. Otherwise the daemon gets the lowest allowed nice value. With autogroup a nice
value counts only within the session. So the nice value of the session is set too, if the
daemon is its leader.

The members of a domain carry the output of jobs, which may be any amount of work. So they
get a nice value only: some nine times the CPU time of a busy task.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

from cosched.core.named_tuples import NamedTuple
from cosched.linux import proc

_FIFO_PRIORITY = 1
_NICE_LOWEST = -20
_NICE_OF_MEMBERS = -10


class Priority(NamedTuple):
    """The priority of a daemon, for display."""

    name: str  #: the policy or nice value, such as ``nice -20``
    why: str = ""  #: why it is not better; "" if it is the best


def raise_daemon_priority(root: Path = proc.ROOT) -> Priority:
    """Gives the calling thread the best allowed priority; returns it."""
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    try:
        os.sched_setscheduler(0, policy, os.sched_param(_FIFO_PRIORITY))
    except OSError as error:
        why = f"SCHED_FIFO: {error.strerror}"
    else:
        return Priority(f"SCHED_FIFO {_FIFO_PRIORITY}")
    nice = _lower_nice()
    if nice < 0:
        why += _lower_autogroup_nice(nice, root)
    return Priority(f"nice {nice}", why)


def raise_member_priority(root: Path = proc.ROOT) -> int:
    """Gives the calling thread the nice value of a domain's members, if it is allowed and
    not better already; returns its nice value. Processes and threads that it makes later
    have the ordinary one."""
    now = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        policy = os.sched_getscheduler(0)
        if policy != os.SCHED_OTHER or now <= _NICE_OF_MEMBERS:
            return now
        # First: tasks of jobs must not inherit the nice value.
        os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, 0, _NICE_OF_MEMBERS)
    except OSError:  # no right to do so, or a filter of system calls
        return now
    _lower_autogroup_nice(_NICE_OF_MEMBERS, root)
    return _NICE_OF_MEMBERS


def _lower_nice() -> int:
    """Sets the lowest allowed nice value; returns it."""
    limit = resource.getrlimit(resource.RLIMIT_NICE)[0]
    by_limit = _NICE_LOWEST if limit == resource.RLIM_INFINITY else 20 - limit
    now = os.getpriority(os.PRIO_PROCESS, 0)
    for nice in (_NICE_LOWEST, max(_NICE_LOWEST, by_limit)):
        if nice >= now:
            continue
        try:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        except PermissionError:
            continue
        return nice
    return now


def _lower_autogroup_nice(nice: int, root: Path) -> str:
    """Sets the nice value of the session; returns the obstacle, or an empty text."""
    enabled = proc.read_text(root / "proc/sys/kernel/sched_autogroup_enabled")
    if (enabled or "0").strip() == "0":
        return ""
    if os.getsid(0) != os.getpid():
        return "; nice counts only within the session: not its leader"
    try:
        (root / "proc/self/autogroup").write_text(str(nice))
    except OSError as error:
        return f"; autogroup: {error.strerror}"
    return ""
