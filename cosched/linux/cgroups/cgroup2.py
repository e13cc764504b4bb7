"""Implements the class scheduler over cgroup v2: cpu.weight, or cpu.max.

The groups are below the group of this process if that group is delegated to it: a systemd
unit or scope with Delegate=yes, or a group that an ordinary user owns. Otherwise they are
at the root of the hierarchy. Every group on the way down must give its children the cpu
controller. Such a group may have no processes, except the root. So the processes of a
delegated group move into a leaf beside the classes, ``cosched.rest``, and back when the
last class is gone.

    BASE/cosched.rest         the processes of BASE: the daemons, a launcher
    BASE/cosched-TAG/JOB      the classes

A process manager starts the next daemon in BASE itself. It can do so only while no child
of BASE has a controller: ``vacate``.

Limits. There is one hierarchy. A task in a class leaves the group of its login session,
unit or batch step, and all limits of that group, until it is given back. The controller
stays enabled on the way down to BASE, because other programs may use it by then. An
ordinary user may move only processes in the part of the tree delegated to that user.
"""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import (
    PREFIX,
    REST,
    Tree,
    has_delegate_mark,
    hierarchies,
    make_group,
    members,
    move,
    own_base,
    remove_group,
    write,
)
from cosched.linux.cgroups.controls import Version2
from cosched.linux.cgroups.groupclasses import GroupClasses, Place

_CONTROLLERS = "cgroup.controllers"
_SUBTREE = "cgroup.subtree_control"
_CLEAR_ROUNDS = 50


class UnifiedTree(Tree):
    """The classes of a tag in the unified hierarchy."""

    def prepare(self) -> None:
        mount_point = self.hierarchy.mount_point
        way = [self.base, *self.base.parents]
        for directory in reversed(way[: way.index(mount_point) + 1]):
            self._hand_down(directory)
        super().prepare()
        self._hand_down(self.top)

    def _hand_down(self, directory: Path) -> None:
        """Gives the children of a group the cpu controller."""
        if "cpu" in (proc.read_text(directory / _SUBTREE) or "").split():
            return
        # The kernel would make a group with processes "domain threaded". Such a group
        # cannot have other groups of processes below it.
        if directory == self.base and (directory / "cgroup.type").exists():
            self._clear_base()
        try:
            write(directory / _SUBTREE, "+cpu")
        except OSError as error:
            if error.errno != errno.EBUSY or directory != self.base:
                raise OSError(
                    error.errno, error.strerror, str(directory / _SUBTREE)
                ) from None
            self._clear_base()
            write(directory / _SUBTREE, "+cpu")

    def _clear_base(self) -> None:
        """Moves the processes of the base into the leaf beside the classes."""
        rest = self.base / REST
        make_group(rest)
        for _ in range(_CLEAR_ROUNDS):
            pids = members(self.base)
            if not pids:
                return
            for pid in pids:
                move(rest, pid)

    def fallback(self) -> Path:
        rest = self.base / REST
        # Only the root, which has no type, may have processes beside children.
        if (self.base / "cgroup.type").exists():
            make_group(rest)
        return rest if rest.is_dir() else self.base

    def vacate(self) -> None:
        """Takes the cpu controller from the classes, so that the base can have processes
        again. OSError passes through."""
        # Only the root, which has no type, may have processes beside children.
        if not (self.base / "cgroup.type").exists():
            return
        for directory in (self.top, self.base):
            if "cpu" in (proc.read_text(directory / _SUBTREE) or "").split():
                write(directory / _SUBTREE, "-cpu")

    def tidy(self) -> None:
        super().tidy()
        rest = self.base / REST
        if not rest.is_dir() or any(self.base.glob(f"{PREFIX}*/")):
            return
        # This fails, and may fail, if another program uses the controller by now.
        with contextlib.suppress(OSError):
            write(self.base / _SUBTREE, "-cpu")
            for pid in members(rest):
                move(self.base, pid)
            remove_group(rest)


class Cgroup2Classes(GroupClasses):
    """The class scheduler over cgroup v2; see ``groupclasses``."""

    name = "cgroup2"
    tree_type = UnifiedTree
    controls = Version2()


def places(root: Path = proc.ROOT) -> list[Place]:
    """Returns the places for classes, best first. CoschedError if there is none."""
    unified = next((h for h in hierarchies(root) if h.version == 2), None)
    if unified is None:
        raise CoschedError("cgroup v2 is not mounted")
    available = proc.read_text(unified.mount_point / _CONTROLLERS)
    if available is None:
        raise CoschedError(f"{unified.mount_point / _CONTROLLERS} cannot be read")
    if "cpu" not in available.split():
        raise CoschedError(
            f"the cpu controller is not among {unified.mount_point / _CONTROLLERS} "
            f"({available.strip() or 'empty'}): cgroup v1 has it, or it is disabled"
        )
    if unified.read_only:
        raise CoschedError(f"{unified.mount_point} is mounted read-only")
    bases = []
    own = own_base(unified)
    if own is not None and own != unified.mount_point and _is_delegated(own):
        bases.append(own)
    if os.access(unified.mount_point, os.W_OK):
        bases.append(unified.mount_point)
    if not bases:
        raise CoschedError(
            f"{own or unified.mount_point} is not delegated to this user; "
            "'systemd-run --user --scope -p Delegate=yes COMMAND' would delegate one"
        )
    return [((unified, base),) for base in bases]


def _is_delegated(directory: Path) -> bool:
    """Returns whether this process may divide the group.

    For an ordinary user, write access is enough. Root may write everywhere, so for root
    systemd's attribute decides.
    """
    if os.geteuid() != 0:
        return all(
            os.access(path, os.W_OK) for path in (directory, directory / "cgroup.procs")
        )
    return has_delegate_mark(directory)
