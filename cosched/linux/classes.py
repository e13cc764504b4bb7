"""What a class scheduler is: the part of a node that gives each job its share of CPU.

The paper (section 2.2.2) had Tru64's class scheduler; Linux has three things that can
stand in for it, one module each:

    cgroup2     cpu.weight / cpu.max in the unified hierarchy
    cgroup1     cpu.shares / cpu.cfs_quota_us in the cpu hierarchy
    dutycycle   SIGSTOP and SIGCONT, for a user without any right to control groups

``cosched.linux.probe`` finds the best that works. Two modes:

    proportional   a share counts only against other classes that want the same CPU;
                   time that a class leaves unused goes to the others
    strict         the paper's: a class never exceeds its share, unused time is lost

A job is known here by its key, a string that is safe as a file name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

from cosched.core.errors import CoschedError

MODES = ("proportional", "strict")
NAMES = ("cgroup2", "cgroup1", "dutycycle")

# No "cpu.weight" or "cgroup.procs": the kernel's files share the directory with ours.
_KEY = re.compile(r"(?!cgroup\.|cpu\.|cpuacct\.|\.)[A-Za-z0-9._-]{1,200}")


class ShareRefused(CoschedError):
    """A class refused its share. The others have theirs: the kernel should now choose anew
    on the CPUs in ``touched``."""

    def __init__(self, reason: str, touched: frozenset[int]) -> None:
        super().__init__(reason)
        self.touched = touched


class ClassScheduler(Protocol):
    """Gives the classes of one node their shares. One object a scheduler daemon."""

    name: str
    mode: str
    pulse_period_ns: int | None
    """None: needs no pulses, ever. Otherwise how long after the last call to ``pulse``
    the next one is due; read it after each call, since a pulse is shorter than the wait
    for the next."""

    def create(self, job: str, cpus: frozenset[int]) -> None:
        """Makes the job's class, at normal shares, or takes over an existing one.

        ``cpus`` are the CPUs that the job's tasks may use. Called again for a job that
        exists it only notes new CPUs, which the next ``set_shares`` takes into account.
        """

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        """Moves the process, all its threads, into the class. A dead one is no error: with
        ``start_ticks``, when it started, another one that has its number by then is left
        where it is."""

    def remove(self, job: str, pid: int) -> None:
        """Gives the process back to where it came from."""

    def destroy(self, job: str) -> None:
        """Gives the members back and removes the class."""

    def freeze(self, job: str) -> None:
        """Stops all that is in the class, newcomers that ``add`` brings only when called
        again. Whoever leaves the class goes on, and with ``destroy`` everybody does."""

    def thaw(self, job: str) -> None:
        """Continues all that is in the class. Also of one that another process froze,
        where the class can be found on disk."""

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        """The switch: writes what changed, shares that fall before shares that rise.

        A frozen class has no share and is not named. Others that are not named keep
        their percent. A percent is of every CPU that the job may use, so classes on
        disjoint CPUs may sum up to more than 100. Returns the CPUs on which the kernel
        should now choose anew (``linux.kick``). A class that refuses its share keeps no
        other from its own; ShareRefused once they are written.
        """

    def cpu_ns(self, job: str) -> int | None:
        """CPU time that the class has used, None where it cannot be told."""

    def pulse(self) -> None:
        """Lets unscheduled jobs run for a moment, so that they can trap messages."""

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        """Every class of this tag back to the kernel's normal shares; idempotent.

        Classes are found on disk, so that another process (the timer daemon, after the
        scheduler daemon was killed) can do this with an object of its own. ``pids`` are
        the tasks of each job, and when they started; only the duty cycle has no other way
        to know them.
        After another process did it, call this on the own object too before the next
        ``set_shares``, which writes only what this object believes has changed.
        """

    def close(self) -> None:
        """Destroys every class of this tag. CoschedError if one cannot be removed."""


def check_key(job: str) -> str:
    """``job`` if it may name a class, else CoschedError."""
    if _KEY.fullmatch(job) is None:
        raise CoschedError(
            f"class '{job}': not usable as a file name; use letters, digits, '.', '_', '-'"
        )
    return job


def check_mode(mode: str) -> str:
    """``mode`` if there is such a mode, else CoschedError."""
    if mode not in MODES:
        raise CoschedError(f"mode '{mode}': must be {' or '.join(MODES)}")
    return mode


def unknown_class(job: str) -> CoschedError:
    """The error for a job that has no class."""
    return CoschedError(f"class {job}: does not exist; create it first")
