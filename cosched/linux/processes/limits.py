"""Reads and sets the limits of processes (setrlimit).

A job has the soft limits of the shell that submitted it, as under mpiexec. They are bounded
by the hard limits on its node. A background process has the limits of the machine's first
process instead of those of the shell that happened to start it.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Mapping
from pathlib import Path

from cosched.linux import proc

UNLIMITED = resource.RLIM_INFINITY
#: The limits of a shell that travel with a job: by the name that ``ulimit`` and batch
#: systems use.
TRAVELLING = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "cpu": resource.RLIMIT_CPU,
    "data": resource.RLIMIT_DATA,
    "fsize": resource.RLIMIT_FSIZE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "rss": resource.RLIMIT_RSS,
    "stack": resource.RLIMIT_STACK,
}
#: The lines of /proc/PID/limits.
_LINES = {
    "Max address space": resource.RLIMIT_AS,
    "Max core file size": resource.RLIMIT_CORE,
    "Max cpu time": resource.RLIMIT_CPU,
    "Max data size": resource.RLIMIT_DATA,
    "Max file size": resource.RLIMIT_FSIZE,
    "Max locked memory": resource.RLIMIT_MEMLOCK,
    "Max msgqueue size": resource.RLIMIT_MSGQUEUE,
    "Max nice priority": resource.RLIMIT_NICE,
    "Max open files": resource.RLIMIT_NOFILE,
    "Max pending signals": resource.RLIMIT_SIGPENDING,
    "Max processes": resource.RLIMIT_NPROC,
    "Max realtime priority": resource.RLIMIT_RTPRIO,
    "Max realtime timeout": resource.RLIMIT_RTTIME,
    "Max resident set": resource.RLIMIT_RSS,
    "Max stack size": resource.RLIMIT_STACK,
}
#: Compiled at its first use.
_LINE = r"(Max [a-z ]+?) {2,}(unlimited|\d+) +(unlimited|\d+)"

Limit = tuple[int, int]
"""Soft and hard; ``UNLIMITED`` is -1."""


def own_limits() -> dict[str, int]:
    """Returns this process's soft limits that travel with a job; -1: unlimited."""
    return {name: resource.getrlimit(number)[0] for name, number in TRAVELLING.items()}


def limit_task(pid: int, wanted: Mapping[str, int], most_processes: int) -> None:
    """Gives a process of this user the soft limits that travelled, as far as its hard ones
    allow. most_processes: the most that its user may have then; root is exempt in the
    kernel. OSError passes."""
    for name, number in TRAVELLING.items():
        soft, hard = resource.prlimit(pid, number)
        soft = wanted.get(name, soft)
        if name == "nproc":
            hard = lower(hard, most_processes)
        resource.prlimit(pid, number, (lower(soft, hard), hard))


def most_processes(root: Path = proc.ROOT) -> int:
    """Returns how many processes the jobs of one user may have on this node: half of the
    machine's. More would keep others, and the node's daemons, from starting any."""
    text = proc.read_text(root / "proc/sys/kernel/pid_max")
    return proc.integer(text) // 2 if text else 1 << 14


def take_limits_of_the_machine(root: Path = proc.ROOT) -> None:
    """Gives this process the soft limits of the machine's first process, and its hard ones
    where they are higher, as far as it may: only root may raise a hard limit."""
    for number, (soft, hard) in limits_of(1, root).items():
        own_hard = resource.getrlimit(number)[1]
        if lower(hard, own_hard) == own_hard != hard:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(number, (soft, hard))
                continue
        resource.setrlimit(number, (lower(soft, own_hard), own_hard))


def limits_of(pid: int, root: Path = proc.ROOT) -> dict[int, Limit]:
    """Returns the limits of a process, by number; empty if it is gone."""
    text = proc.read_of(pid, "limits", root) or ""
    found = {}
    for line in text.splitlines():
        match = re.match(_LINE, line)
        if match is not None and match[1] in _LINES:
            found[_LINES[match[1]]] = (_number(match[2]), _number(match[3]))
    return found


def _number(word: str) -> int:
    return UNLIMITED if word == "unlimited" else proc.integer(word)


def lower(one: int, other: int) -> int:
    """Returns the lower of two limits."""
    if UNLIMITED in (one, other):
        return max(one, other)
    return min(one, other)


def what_holds_back(pid: int) -> str:
    """Returns what a background process kept of the command that started it, while this
    process would not give it that: a few words; empty for nothing."""
    its, own = limits_of(pid), limits_of(os.getpid())
    for name, number in TRAVELLING.items():
        if number not in its or number not in own:
            continue  # it has ended
        hard, own_hard = its[number][1], own[number][1]
        if hard != own_hard and lower(hard, own_hard) == hard:
            shown = "unlimited" if own_hard == UNLIMITED else own_hard
            return f"the hard limit {name} {hard}, not {shown}"
    try:
        nice = os.getpriority(os.PRIO_PROCESS, pid)
    except ProcessLookupError:
        return ""
    own_nice = os.getpriority(os.PRIO_PROCESS, 0)
    return f"the nice value {nice}, not {own_nice}" if nice > max(0, own_nice) else ""
