"""Makes one control group for the processes of a job, so that all of them can be killed at
once, also those that fork faster than signals reach them.

The group is made below the group of the process that makes it, so it leaves no limit and no
allocation. It has no controllers: it takes nothing from the classes of the scheduler
daemon, which may move its processes. Version 2 is used wherever it is mounted, also beside
version 1; then the freezer of version 1.

None is made inside an engine's group of one job: a batch job or a container. Its engine
kills what is there, and its groups may serve as classes in place.

Limits: a process in a real-time class of its own hierarchy stays; a process that the
scheduler daemon has moved into a class of version 2 is no longer in the group. Signals
reach them (``processes.descendants``).
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import (
    Hierarchy,
    hierarchies,
    make_group,
    members,
    own_base,
    remove_group,
)
from cosched.linux.cgroups.inplace.job_groups import job_group
from cosched.linux.processes.signals import send
from cosched.linux.waiting import comes_true

#: Not that of the scheduler daemon's groups.
_PREFIX = "cosched_job."
_PROCS, _KILL, _EVENTS = "cgroup.procs", "cgroup.kill", "cgroup.events"
_EMPTY = b"populated 0"
#: For each version the file that freezes a group, and what it takes.
_FREEZERS = {2: ("cgroup.freeze", "1", "0"), 1: ("freezer.state", "FROZEN", "THAWED")}
#: How long version 1 may take to freeze a group.
_FROZEN_WITHIN_S = 1.0
#: How long processes may take to end by SIGKILL: the kernel frees their memory.
_ENDED_WITHIN_S = 1.0
_ROUND_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class GroupLocation:
    """Where groups of jobs can be made."""

    base: Path  #: the directory that they are made in
    version: int  #: the version of its cgroup hierarchy: 1 or 2


def find_place(root: Path = proc.ROOT) -> GroupLocation | None:
    """Returns where this process can make groups of jobs; None if it cannot."""
    usable = [each for each in hierarchies(root) if not each.read_only]
    for version in (2, 1):
        for hierarchy in usable:
            if hierarchy.version == version and (base := _base(hierarchy)) is not None:
                return GroupLocation(base, version)
    return None


def _base(hierarchy: Hierarchy) -> Path | None:
    if hierarchy.version == 1 and "freezer" not in hierarchy.controllers:
        return None
    base = own_base(hierarchy)
    if base is None or not os.access(base, os.W_OK):
        return None
    if job_group(base.relative_to(hierarchy.mount_point).parts) is not None:
        return None
    return base


def make_name(number: int) -> str:
    """Returns the name of a group that this process or its child makes. number: differs
    for each."""
    return f"{_PREFIX}{os.getpid()}.{number}"


def remove_left_groups(place: GroupLocation) -> None:
    """Removes the empty groups of processes that have ended."""
    for path in place.base.glob(f"{_PREFIX}*"):
        pid = path.name.removeprefix(_PREFIX).partition(".")[0]
        if not (proc.ROOT / "proc" / pid).exists():
            remove_group(path)


def end_group(place: GroupLocation, name: str) -> bool:
    """Kills what is left in a group and removes it, if there is one. Returns False while
    processes of it still end. OSError passes."""
    if not (place.base / name).exists():
        return True
    group = KillGroup(place, name)
    try:
        group.kill()
    finally:
        group.close()
    return remove_group(place.base / name)


class KillGroup:
    """The group of one job. It is opened with the rights of the process that made it, and
    works after that process has given them up. OSError passes.

    path: its directory.
    """

    def __init__(self, place: GroupLocation, name: str) -> None:
        self.path = place.base / name
        self._frozen, self._thawed = _FREEZERS[place.version][1:]
        self._version = place.version
        make_group(self.path)
        with contextlib.ExitStack() as opened:
            self._procs = self._open(_PROCS, os.O_WRONLY, opened)
            self._kill = self._events = self._freezer = -1
            if (self.path / _KILL).exists():
                self._kill = self._open(_KILL, os.O_WRONLY, opened)
                self._events = self._open(_EVENTS, os.O_RDONLY, opened)
            else:
                name = _FREEZERS[place.version][0]
                self._freezer = self._open(name, os.O_RDWR, opened)
            opened.pop_all()

    def _open(self, name: str, flags: int, opened: contextlib.ExitStack) -> int:
        descriptor = os.open(self.path / name, flags | os.O_CLOEXEC)
        opened.callback(os.close, descriptor)
        return descriptor

    def add(self, pid: int) -> None:
        """Moves a process into the group; its descendants stay there."""
        with contextlib.suppress(ProcessLookupError):
            os.write(self._procs, str(pid).encode())

    def kill(self) -> None:
        """Kills all processes of the group at once. Where the kernel does that itself
        (cgroup.kill), it also kills those of other users, and this waits for their ends."""
        if self._kill >= 0:
            os.write(self._kill, b"1")
            self._await_ends()
            return
        with self._held():
            for pid in members(self.path):
                send(pid, signal.SIGKILL)

    def _await_ends(self) -> None:
        changed = select.poll()
        changed.register(self._events, select.POLLPRI)
        deadline = time.monotonic() + _ENDED_WITHIN_S
        while _EMPTY not in os.pread(self._events, _ROUND_BYTES, 0):
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            changed.poll(left_s * 1000)

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        """Freezes the group meanwhile: nothing in it forks. Signals wait in version 1."""
        os.write(self._freezer, self._frozen.encode())
        try:
            if self._version == 1:  # it reports no event
                comes_true(self._is_frozen, _FROZEN_WITHIN_S, 0.001)
            yield
        finally:
            os.write(self._freezer, self._thawed.encode())

    def _is_frozen(self) -> bool:
        return os.pread(self._freezer, 32, 0).strip() == self._frozen.encode()

    def close(self) -> None:
        """Closes the descriptors; the group stays."""
        for descriptor in (self._procs, self._kill, self._events, self._freezer):
            if descriptor >= 0:
                os.close(descriptor)
