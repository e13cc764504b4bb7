"""Finds mounted cgroup hierarchies and manages one node's groups in them.

The classes of a node are ``BASE/cosched-TAG/JOB``. ``Tree`` is ``BASE/cosched-TAG`` in one
hierarchy. It makes and removes groups, moves processes in and gives them back.

The origin of a process is kept in memory and, if possible, as an extended attribute of the
job's group. So another process that empties the group can also give its members back to
their origin, for example a login session or a batch step.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path, PurePosixPath

from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.linux import proc
from cosched.linux.cgroups.mounts import parse_mountinfo

PREFIX = "cosched-"
#: The leaf for the processes of a group that has classes as children (version 2).
REST = "cosched.rest"
#: systemd runs the other commands of a unit there, such as ExecStopPost=.
CONTROL = ".control"
#: How many processes that a task started move along with it: each takes the kernel some 10
#: ms. The others stay where they are.
MOVES_MOST = 16
#: The errors of a group that was removed.
GONE = (errno.ENOENT, errno.ENODEV)

_PROCS = "cgroup.procs"
# Set by systemd on a group that it leaves to its unit.
_DELEGATE_ATTRIBUTES = ("trusted.delegate", "user.delegate")
# Only root may write trusted.*, on both versions. Any user may write user.* on version 2.
_ORIGIN_ATTRIBUTES = ("trusted.cosched.origin", "user.cosched.origin")
# A process may fork while its group is emptied; the next round moves the children.
_EMPTY_ROUNDS = 50


# --- mounts -------------------------------------------------------------------------


class Hierarchy(NamedTuple):
    """One mounted cgroup hierarchy, as this process sees it."""

    version: int  #: the version of cgroups: 1 or 2
    #: Version 1: the controllers mounted here. Version 2: empty; see cgroup.controllers.
    controllers: frozenset[str]
    mount_point: Path  #: below ``root``
    #: The group at the mount point; "/" unless it is a container's or bind mount.
    mount_root: str
    read_only: bool  #: the mount or the file system is
    root: Path  #: the folder that holds ``proc``; "/" outside tests

    def directory(self, group: str) -> Path | None:
        """Returns the directory of a path of /proc/PID/cgroup; None if not mounted."""
        try:
            below = PurePosixPath(group).relative_to(self.mount_root)
        except ValueError:
            return None
        return None if ".." in below.parts else self.mount_point / below

    def group_of(self, pid: int | str) -> str | None:
        """Returns the path of the process's group in this hierarchy."""
        if isinstance(pid, int):
            text = proc.read_of(pid, "cgroup", self.root)
        else:
            text = proc.read_text(self.root / "proc" / pid / "cgroup")
        for line in (text or "").splitlines():
            number, controllers, group = line.split(":", 2)
            if self.version == 2:
                if number == "0" and not controllers:
                    return group
            elif not self.controllers.isdisjoint(controllers.split(",")):
                return group
        return None


def hierarchies(root: Path = proc.ROOT) -> list[Hierarchy]:
    """Returns the cgroup mounts that this process can use, the most useful first.

    Writable mounts come before read-only ones, whole before partial ones. A mount below
    a later mount is hidden and left out.
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
    """Returns the directory of this process's group, as a place for classes.

    If the process is in a class, or in a leaf beside the classes, it is their parent.
    """
    group = hierarchy.group_of("self")
    directory = hierarchy.directory(group) if group is not None else None
    if directory is None or not directory.is_dir():
        return None
    if directory.name in (REST, CONTROL):
        return directory.parent
    top = directory.parent.name
    if top.startswith(PREFIX) and not top.endswith((".service", ".scope", ".slice")):
        return directory.parent.parent
    return directory


# --- files and directories of a group -----------------------------------------------


def write(path: Path, text: str) -> None:
    """Writes a control file with one write. OSError passes through."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def make_group(path: Path) -> None:
    """Makes a group if it does not exist."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)


def remove_group(path: Path) -> bool:
    """Removes an empty group; returns False if it is in use, True if it is gone."""
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
    """Moves a process with all its threads into a group; False if it is gone."""
    try:
        write(directory / _PROCS, str(pid))
    except ProcessLookupError:
        return False
    return True


def members(directory: Path) -> list[int]:
    """Returns the processes in a group that are visible in this pid namespace."""
    text = proc.read_text(directory / _PROCS) or ""
    return sorted({proc.integer(word) for word in text.split()} - {0})


def has_delegate_mark(directory: Path) -> bool:
    """Returns whether systemd has left the group to its unit."""
    for attribute in _DELEGATE_ATTRIBUTES:
        with contextlib.suppress(OSError):
            if os.getxattr(directory, attribute) == b"1":
                return True
    return False


def why(error: OSError) -> str:
    """Returns an OSError in a few words: the file and the kernel's message."""
    return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)


def why_not_moved(pid: int, error: OSError) -> str:
    """Returns why a process could not be moved, for the user who started it."""
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"process {pid} may not be moved here ({error.strerror}); start it inside "
            "the part of the cgroup tree that was delegated to you"
        )
    if error.errno == errno.EINVAL:
        return f"process {pid} has real-time priority, which its class may not have"
    return f"process {pid} cannot be moved here: {why(error)}"


# --- one node's groups ---------------------------------------------------------------


class Tree:
    """The groups of one tag in one hierarchy of cgroup v1."""

    def __init__(self, hierarchy: Hierarchy, base: Path, tag: str) -> None:
        self.hierarchy = hierarchy
        self.base = base
        self.top = base / f"{PREFIX}{tag}"
        self._origins: dict[int, str] = {}

    def path(self, job: str) -> Path:
        """Returns the directory of the job's group."""
        return self.top / job

    def jobs(self) -> list[str]:
        """Returns the jobs that have a group, from this or another process."""
        try:
            with os.scandir(self.top) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []

    def make(self, job: str) -> None:
        """Makes the job's group and its missing parents."""
        for last_try in (False, False, True):
            self.prepare()
            try:
                make_group(self.path(job))
            except FileNotFoundError:
                # Another process of this tag removed the empty top meanwhile.
                if last_try:
                    raise
            else:
                return

    def prepare(self) -> None:
        """Makes the top, so that jobs' groups can be made in it."""
        make_group(self.top)

    def move_in(self, job: str, pid: int, start_ticks: int | None = None) -> bool:
        """Moves a process into the job's group, and then the processes that it has started
        in the group that it comes from; returns False if it is gone.

        With ``start_ticks`` it moves only the process that started at that time. Another
        process that got the same pid meanwhile is moved back."""
        target, root = self.path(job), self.hierarchy.root
        origin = self.hierarchy.group_of(pid)
        if origin is not None and self.hierarchy.directory(origin) == target:
            # A process of the job started it: the write would take 10 ms.
            return self._is_still(pid, start_ticks)
        if not self._take(target, pid, start_ticks, origin):
            return False

        def is_there(child: int) -> bool:
            return self.hierarchy.group_of(child) == origin

        for child in proc.started_by(pid, MOVES_MOST, is_there, root):
            child_ticks = proc.start_ticks(child, root)
            with contextlib.suppress(OSError):  # one that cannot be moved stays there
                if is_there(child):
                    self._take(target, child, child_ticks, origin)
        return True

    def _take(
        self, target: Path, pid: int, start_ticks: int | None, origin: str | None
    ) -> bool:
        """Moves one process from ``origin``; returns False if it is gone."""
        if not self._is_still(pid, start_ticks) or not move(target, pid):
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
        """Returns whether the pid still belongs to this process.

        The kernel moves the current owner of the pid, so callers check again afterwards."""
        if start_ticks is None:
            return True
        return proc.start_ticks(pid, self.hierarchy.root) == start_ticks

    def _undo(self, target: Path, pid: int, origin: str | None) -> None:
        """Moves a process that got a reused pid, and so went to ``target``, back.

        It goes to its parent's group, where it started, or to the origin read before."""
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
        """Moves a process of the job's group back to its origin."""
        start_ticks = proc.start_ticks(pid, self.hierarchy.root)
        group = self.hierarchy.group_of(pid)
        source = self.path(job)
        if group is None:
            self._origins.pop(pid, None)
            return
        if self.hierarchy.directory(group) != source:
            return  # perhaps in the class of another job, which moves it back
        origin = self._origins.pop(pid, None)
        for target in self._homes(origin or _recall_origin(source)):
            try:
                move(target, pid)
            except OSError:
                continue
            if not self._is_still(pid, start_ticks):
                self._undo(target, pid, origin)
            return
        raise CoschedError(
            f"class {job}: process {pid} can be moved neither to its origin "
            f"nor to {self.fallback()}"
        )

    def _homes(self, origin: str | None) -> list[Path]:
        directory = self.hierarchy.directory(origin) if origin else None
        return [home for home in (directory, self.fallback()) if home is not None]

    def _is_ours(self, group: str) -> bool:
        directory = self.hierarchy.directory(group)
        return directory is not None and self.top in directory.parents

    def fallback(self) -> Path:
        """Returns the group for processes of unknown origin."""
        return self.base

    def empty(self, job: str) -> None:
        """Gives back all members of the job's group."""
        for _ in range(_EMPTY_ROUNDS):
            pids = members(self.path(job))
            if not pids:
                return
            for pid in pids:
                self.give_back(job, pid)

    def remove(self, job: str) -> bool:
        """Removes the job's group; returns False if it still has members."""
        return remove_group(self.path(job))

    def vacate(self) -> None:
        """Does nothing: a group of version 1 has processes beside children."""

    def tidy(self) -> None:
        """Removes the parents of the jobs' groups if they are empty."""
        remove_group(self.top)


def _remember_origin(directory: Path, origin: str) -> None:
    for attribute in _ORIGIN_ATTRIBUTES:
        with contextlib.suppress(OSError):
            os.setxattr(directory, attribute, origin.encode())
            return


def _recall_origin(directory: Path) -> str | None:
    for attribute in _ORIGIN_ATTRIBUTES:
        with contextlib.suppress(OSError):
            return shown_text(os.getxattr(directory, attribute))
    return None
