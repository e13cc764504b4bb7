"""Defines the class scheduler: the part of a node that gives each job its share of CPU.

The paper (section 2.2.2) uses Tru64's class scheduler. Linux has three substitutes, one
module each:

    cgroup2     cpu.weight / cpu.max in the unified hierarchy
    cgroup1     cpu.shares / cpu.cfs_quota_us in the cpu hierarchy
    dutycycle   SIGSTOP and SIGCONT, for users without rights to control groups

``cosched.linux.cgroups.placement`` steers each task of the first two in one of three ways:
in the group that its engine made, in a group of our own, or by the duty cycle.
``cosched.linux.probe`` finds the best that works. Two modes:

    proportional   a share counts only against other classes that want the same CPU;
                   time that a class leaves unused goes to the others
    strict         the paper's: a class never exceeds its share, unused time is lost

A job is identified by its key, a string that is safe as a file name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import Protocol

from cosched.core.config.words import MODES
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple

# No "cpu.weight" or "cgroup.procs": the kernel's files share the directory with ours.
_KEY = r"(?!cgroup\.|cpu\.|cpuacct\.|\.)[A-Za-z0-9._-]{1,200}"


class ShareRefused(CoschedError):
    """A class refused its share; the other classes have theirs.

    The kernel should choose tasks again on the CPUs in ``touched``."""

    def __init__(self, reason: str, touched: frozenset[int]) -> None:
        super().__init__(reason)
        self.touched = touched


class Way(str, Enum):
    """How the tasks of a job are steered."""

    IN_PLACE = "in place"
    """By the shares of the group that an engine gave the job; no task is moved."""
    MOVED = "moved"
    """By the shares of a group that cosched made and moved the tasks into."""
    DUTY_CYCLE = "duty cycle"
    """By SIGSTOP and SIGCONT."""


class ClassLocation(NamedTuple):
    """Where a job's class is, for display."""

    ways: tuple[Way, ...]  #: how the job's tasks are steered
    groups: tuple[str, ...]  #: the directories of its groups; empty: it has none
    #: Why it has no class in place; None: no task was refused one.
    reason: str | None = None
    #: Why a quota bounds it while it is unscheduled, where weights would be usual. None: no
    #: quota does.
    bounded: str | None = None


class ClassScheduler(Protocol):
    """Gives the classes of one node their shares. One object a scheduler daemon."""

    name: str
    mode: str

    @property
    def pulse_period_ns(self) -> int | None:
        """The time from one call of ``pulse`` to the next; None if it needs no pulses.

        Read it after each call: a pulse is shorter than the wait for the next one, and the
        need for pulses comes and goes with the tasks."""

    def create(self, job: str, cpus: frozenset[int]) -> None:
        """Makes the job's class, at normal shares, or takes over an existing one.

        ``cpus``: the CPUs that the job's tasks may use. For an existing class it only
        stores new CPUs, which the next ``set_shares`` uses.
        """

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        """Moves the process with all its threads, and the processes that it has started,
        into the class; ignores a dead process.

        With ``start_ticks``, its start time, another process with the same pid stays."""

    def remove(self, job: str, pid: int) -> None:
        """Gives the process back to its origin, and those that it started and that were not
        added themselves."""

    def destroy(self, job: str) -> None:
        """Gives the members back and removes the class."""

    def freeze(self, job: str) -> None:
        """Stops all processes in the class; call it again after ``add``.

        A process that leaves the class continues; ``destroy`` continues all of them."""

    def thaw(self, job: str) -> None:
        """Continues all processes in the class.

        Also for a class that another process froze, if it is found on disk."""

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        """Makes the switch: writes changed shares, falling before rising ones.

        A job without a class is skipped: its class could not be made, and the other classes
        must still get their shares. A frozen class has no share and is not named. Other
        classes that are not named keep their percent. A percent counts on every CPU that
        the job may use, so classes on disjoint CPUs may sum to more than 100. Returns the
        CPUs on which the kernel should choose tasks again (``linux.native.kick``). Raises
        ShareRefused after all other shares are written.
        """

    def cpu_ns(self, job: str) -> int | None:
        """Returns the CPU time that the class has used; None if unknown."""

    def place(self, job: str) -> ClassLocation:
        """Returns where the job's class is."""

    def inspect(self) -> None:
        """Looks for changes that other programs made: groups that ended, tasks that left.

        It logs one line for each, and adapts the classes."""

    def pulse(self) -> None:
        """Lets unscheduled jobs run for a moment, so that they can trap messages."""

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        """Sets every class of this tag to the kernel's normal shares; idempotent.

        Classes are found on disk. So another process can restore them: the timer daemon
        does so after the scheduler daemon was killed. ``pids``: the tasks of each job and
        their start times; only the duty cycle needs them. If another process restored the
        classes, call this too before the next ``set_shares``, which writes only changes.
        """

    def vacate(self) -> None:
        """Takes all shares away, so that the group around the classes can have processes.

        The classes and their members stay; ``create`` gives them shares again. A process
        manager starts the next daemon in that group."""

    def close(self) -> None:
        """Destroys every class of this tag. CoschedError if one cannot be removed."""


def check_key(job: str) -> str:
    """Returns ``job`` if it may name a class; otherwise raises CoschedError."""
    if re.fullmatch(_KEY, job) is None:
        raise CoschedError(
            f"class '{job}': not usable as a file name; use letters, digits, '.', '_', '-'"
        )
    return job


def check_mode(mode: str) -> str:
    """Returns ``mode`` if it is a mode; otherwise raises CoschedError."""
    if mode not in MODES:
        raise CoschedError(f"mode '{mode}': must be {' or '.join(MODES)}")
    return mode


def unknown_class(job: str) -> CoschedError:
    """Returns the error for a job without a class."""
    return CoschedError(f"class {job}: does not exist; create it first")
