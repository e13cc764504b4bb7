"""The class scheduler over cgroup v2: cpu.weight, or cpu.max.

Where the groups live: below the group of this process if that was delegated to it (a
systemd unit or scope with Delegate=yes; for an ordinary user, a group that he owns), else
at the root of the hierarchy. On the way down every group must hand the cpu controller to
its children, and a group that does may hold no processes, except the root. The
processes of a delegated group therefore move into a leaf of their own, ``cosched.rest``,
beside the classes, and back when the last class is gone.

    BASE/cosched.rest         what was in BASE: the daemons, a launcher
    BASE/cosched-TAG/JOB      the classes

Limits. There is one hierarchy: a task in a class is no longer in its login session's,
unit's or batch step's group, nor under that group's other limits, until it is given back.
The controller stays enabled on the way down to BASE, since by then others may use it.
An ordinary user may move only processes that are in the part delegated to him.
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
    hierarchies,
    make_group,
    members,
    move,
    own_base,
    remove_group,
    write,
)
from cosched.linux.cgroups.groupclasses import GroupClasses, Place
from cosched.linux.cgroups.shares import CPU_WEIGHT, PERIOD_US, UNLIMITED_US

_CONTROLLERS = "cgroup.controllers"
_SUBTREE = "cgroup.subtree_control"
# Set by systemd on a group that it leaves to its unit.
_DELEGATE_ATTRIBUTES = ("trusted.delegate", "user.delegate")
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
        # While a group has processes the kernel would grant cpu, but make the group a
        # "domain threaded" one, in which no other group of processes can be made.
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
        # The root, the one group without a type, may hold processes beside children.
        if (self.base / "cgroup.type").exists():
            make_group(rest)
        return rest if rest.is_dir() else self.base

    def tidy(self) -> None:
        super().tidy()
        rest = self.base / REST
        if not rest.is_dir() or any(self.base.glob(f"{PREFIX}*/")):
            return
        # Left as it is if something else uses the controller by now.
        with contextlib.suppress(OSError):
            write(self.base / _SUBTREE, "-cpu")
            for pid in members(rest):
                move(self.base, pid)
            remove_group(rest)


class Cgroup2Classes(GroupClasses):
    """See the module's text and ``groupclasses``."""

    name = "cgroup2"
    tree_type = UnifiedTree
    scale = CPU_WEIGHT
    weight_file = "cpu.weight"
    quota_file = "cpu.max"
    usage_file = "cpu.stat"

    @staticmethod
    def quota_text(quota_us: int) -> str:
        return "max" if quota_us == UNLIMITED_US else f"{quota_us} {PERIOD_US}"

    @staticmethod
    def usage_ns(text: bytes) -> int:
        for line in text.splitlines():
            key, _, value = line.partition(b" ")
            if key == b"usage_usec":
                return int(value) * 1000
        raise OSError(errno.ENODATA, "no usage_usec")


def places(root: Path = proc.ROOT) -> list[Place]:
    """Where classes may be made, best first; CoschedError with the reason if nowhere."""
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
    """Whether the group was left to this process to divide.

    Root may write everywhere, so only systemd's mark tells; for others being able
    to write is the mark.
    """
    if os.geteuid() != 0:
        return all(
            os.access(path, os.W_OK) for path in (directory, directory / "cgroup.procs")
        )
    for attribute in _DELEGATE_ATTRIBUTES:
        with contextlib.suppress(OSError):
            if os.getxattr(directory, attribute) == b"1":
                return True
    return False
