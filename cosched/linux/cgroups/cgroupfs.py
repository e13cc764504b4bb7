"""Control groups as directories: where they are mounted, and one node's groups in them.

A node's classes live in ``BASE/cosched-TAG/JOB``. ``Tree`` is the part ``BASE/cosched-TAG``
in one hierarchy: it makes and removes groups, moves processes in and gives them back.

Where a process came from is kept twice: in memory, and (best effort) as an extended
attribute of the job's group, so that another process that has to empty the group can still
give its members back to the right place, such as a login session or a batch step.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups.mounts import parse_mountinfo

PREFIX = "cosched-"
REST = "cosched.rest"
"""Leaf for the processes of a group that got classes as children (version 2)."""

_PROCS = "cgroup.procs"
# trusted.* is root's and works on both versions; user.* is anybody's, on version 2.
_ORIGIN_ATTRIBUTES = ("trusted.cosched.origin", "user.cosched.origin")
# A process that forks while its group is emptied leaves children for another round.
_EMPTY_ROUNDS = 50


# --- mounts -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted cgroup hierarchy, as this process sees it."""

    version: int
    controllers: frozenset[str]
    """Version 1: those mounted here together. Version 2: empty, see cgroup.controllers."""
    mount_point: Path
    mount_root: str
    """Which group the mount point shows; "/" unless it is a container's or bind mount."""
    read_only: bool
    root: Path

    def directory(self, group: str) -> Path | None:
        """The directory of a group by its path in /proc/PID/cgroup; None if not mounted."""
        try:
            below = PurePosixPath(group).relative_to(self.mount_root)
        except ValueError:
            return None
        return None if ".." in below.parts else self.mount_point / below

    def group_of(self, pid: int | str) -> str | None:
        """The path in /proc/PID/cgroup of the process's group in this hierarchy."""
        text = proc.read_text(self.root / "proc" / str(pid) / "cgroup")
        for line in (text or "").splitlines():
            number, controllers, group = line.split(":", 2)
            if self.version == 2:
                if number == "0" and not controllers:
                    return group
            elif not self.controllers.isdisjoint(controllers.split(",")):
                return group
        return None


def hierarchies(root: Path = proc.ROOT) -> list[Hierarchy]:
    """The cgroup mounts that this process sees, the most useful of each hierarchy first.

    Writable before read-only, whole before partial. A mount that another one hides by
    being mounted over it later is left out.
    """
    text = proc.read_text(root / "proc/self/mountinfo") or ""
    visible: dict[str, Hierarchy | None] = {}
    for mount in parse_mountinfo(text):
        point, options = mount.point, mount.super_options
        for hidden in [p for p in visible if p == point or p.startswith(point + "/")]:
            visible[hidden] = None
        if mount.fstype not in ("cgroup", "cgroup2"):
            continue
        version = 2 if mount.fstype == "cgroup2" else 1
        visible[point] = Hierarchy(
            version=version,
            controllers=options - {"rw", "ro"} if version == 1 else frozenset(),
            mount_point=root / point.lstrip("/"),
            mount_root=mount.root,
            read_only="ro" in mount.options or "ro" in options,
            root=root,
        )
    found = [hierarchy for hierarchy in visible.values() if hierarchy is not None]
    return sorted(found, key=lambda h: (h.read_only, h.mount_root != "/"))


def own_base(hierarchy: Hierarchy) -> Path | None:
    """The directory of the group that this process is in, seen as a place for classes.

    A process inside a class, or in the leaf beside the classes, means their parent.
    """
    group = hierarchy.group_of("self")
    directory = hierarchy.directory(group) if group is not None else None
    if directory is None or not directory.is_dir():
        return None
    if directory.name == REST:
        return directory.parent
    top = directory.parent.name
    if top.startswith(PREFIX) and not top.endswith((".service", ".scope", ".slice")):
        return directory.parent.parent
    return directory


# --- files and directories of a group -----------------------------------------------


def write(path: Path, text: str) -> None:
    """Writes a control file in one go. OSError as it comes."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def make_group(path: Path) -> None:
    """Makes a group; one that exists is fine."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)


def remove_group(path: Path) -> bool:
    """Removes an empty group; False if it is in use. One that is gone is fine."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.ENOTEMPTY):
            return False
        raise
    return True


def move(directory: Path, pid: int) -> bool:
    """Moves a process, all its threads, into a group; False if it is gone."""
    try:
        write(directory / _PROCS, str(pid))
    except ProcessLookupError:
        return False
    return True


def members(directory: Path) -> list[int]:
    """The processes in a group, without those that this pid namespace cannot name."""
    text = proc.read_text(directory / _PROCS) or ""
    return sorted({int(word) for word in text.split()} - {0})


def why(error: OSError) -> str:
    """An OSError in a few words: what the kernel said, and about which file."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


# --- one node's groups ---------------------------------------------------------------


class Tree:
    """The groups of one tag in one hierarchy, as cgroup v1 has them."""

    def __init__(self, hierarchy: Hierarchy, base: Path, tag: str) -> None:
        self.hierarchy = hierarchy
        self.base = base
        self.top = base / f"{PREFIX}{tag}"
        self._origins: dict[int, str] = {}

    def path(self, job: str) -> Path:
        """The directory of the job's group."""
        return self.top / job

    def jobs(self) -> list[str]:
        """The jobs that have a group on disk, whoever made it."""
        try:
            with os.scandir(self.top) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def make(self, job: str) -> None:
        """Makes the job's group and what is above it, as far as they are missing."""
        for last_try in (False, False, True):
            self.prepare()
            try:
                make_group(self.path(job))
            except FileNotFoundError:
                # Another process of this tag found the top empty and removed it.
                if last_try:
                    raise
            else:
                return

    def prepare(self) -> None:
        """Makes the top, so that jobs' groups can be made in it."""
        make_group(self.top)

    def move_in(self, job: str, pid: int, start_ticks: int | None = None) -> bool:
        """Moves a process into the job's group; False if it is gone. With ``start_ticks``
        only the one that started then: who else was moved under its number goes back."""
        target = self.path(job)
        if not self._is_still(pid, start_ticks):
            return False
        origin = self.hierarchy.group_of(pid)
        if not move(target, pid):
            return False
        if not self._is_still(pid, start_ticks):
            self._undo(target, pid, origin)
            return False
        if origin is not None and not self._is_ours(origin):
            if origin not in self._origins.values():
                _remember_origin(target, origin)
            self._origins[pid] = origin
        return True

    def _is_still(self, pid: int, start_ticks: int | None) -> bool:
        """Whether the number is that process's. The kernel moves whoever has the number
        when it is written, so this is asked again afterwards."""
        if start_ticks is None:
            return True
        return proc.start_ticks(pid, self.hierarchy.root) == start_ticks

    def _undo(self, target: Path, pid: int, origin: str | None) -> None:
        """Moves whoever got the number meanwhile, and so into ``target``, to where its
        parent is, since processes begin there, or to the origin that was read before."""
        group = self.hierarchy.group_of(pid)
        if group is None or self.hierarchy.directory(group) != target:
            return
        parent = proc.parent(pid, self.hierarchy.root)
        home = self.hierarchy.group_of(parent) if parent else None
        for directory in [*self._homes(home), *self._homes(origin)]:
            with contextlib.suppress(OSError):
                move(directory, pid)
                return

    def give_back(self, job: str, pid: int) -> None:
        """Moves a process to where it came from, if it is in the job's group at all."""
        origin = self._origins.pop(pid, None)
        start_ticks = proc.start_ticks(pid, self.hierarchy.root)
        group = self.hierarchy.group_of(pid)
        source = self.path(job)
        if group is None or self.hierarchy.directory(group) != source:
            return
        for target in self._homes(origin or _recall_origin(source)):
            try:
                move(target, pid)
            except OSError:
                continue
            if not self._is_still(pid, start_ticks):
                self._undo(target, pid, origin)
            return
        raise CoschedError(
            f"class {job}: process {pid} can be moved neither to where it came from "
            f"nor to {self.fallback()}"
        )

    def _homes(self, origin: str | None) -> list[Path]:
        directory = self.hierarchy.directory(origin) if origin else None
        return [home for home in (directory, self.fallback()) if home is not None]

    def _is_ours(self, group: str) -> bool:
        directory = self.hierarchy.directory(group)
        return directory is not None and self.top in directory.parents

    def fallback(self) -> Path:
        """Where processes of unknown origin go."""
        return self.base

    def empty(self, job: str) -> None:
        """Gives all members of the job's group back."""
        for _ in range(_EMPTY_ROUNDS):
            pids = members(self.path(job))
            if not pids:
                return
            for pid in pids:
                self.give_back(job, pid)

    def remove(self, job: str) -> bool:
        """Removes the job's group; False if something is still in it."""
        return remove_group(self.path(job))

    def tidy(self) -> None:
        """Removes what is above the jobs' groups once there are none."""
        remove_group(self.top)


def _remember_origin(directory: Path, origin: str) -> None:
    for attribute in _ORIGIN_ATTRIBUTES:
        with contextlib.suppress(OSError):
            os.setxattr(directory, attribute, origin.encode())
            return


def _recall_origin(directory: Path) -> str | None:
    for attribute in _ORIGIN_ATTRIBUTES:
        with contextlib.suppress(OSError):
            return os.getxattr(directory, attribute).decode(errors="replace")
    return None
