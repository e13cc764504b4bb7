"""Implements the class scheduler over cgroup v1: cpu.shares, or cpu.cfs_quota_us.

The groups are at the root of the cpu hierarchy if that is writable. Otherwise they are
below the group of this process, for example in a container.

The cpuacct controller accounts CPU time. If it is mounted together with cpu, the same group
has the figure. If it is a separate hierarchy, the classes are made there too. If that
fails, CPU time is unknown, and reports lack a column.

Kernels with RT_GROUP_SCHED refuse real-time processes in new groups. Tasks are ordinary
processes, and the daemons stay outside.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import Hierarchy, hierarchies, own_base
from cosched.linux.cgroups.controls import Version1
from cosched.linux.cgroups.groupclasses import GroupClasses, Place


class Cgroup1Classes(GroupClasses):
    """The class scheduler over cgroup v1; see ``groupclasses``."""

    name = "cgroup1"
    controls = Version1()


def places(root: Path = proc.ROOT) -> list[Place]:
    """Returns the places for classes, best first. CoschedError if there is none."""
    mounted = [h for h in hierarchies(root) if h.version == 1]
    with_cpu = [h for h in mounted if "cpu" in h.controllers]
    if not with_cpu:
        raise CoschedError("no cgroup v1 hierarchy with the cpu controller is mounted")
    cpu = with_cpu[0]
    if cpu.read_only:
        raise CoschedError(f"{cpu.mount_point} is mounted read-only")
    bases = _bases(cpu)
    if not bases:
        raise CoschedError(f"{cpu.mount_point} is mounted but missing")
    accounting = None
    if "cpuacct" not in cpu.controllers:
        accounting = _accounting(mounted)
    return [((cpu, base), *(accounting or ())) for base in bases]


def _bases(hierarchy: Hierarchy) -> list[Path]:
    own = own_base(hierarchy)
    bases = [hierarchy.mount_point] if hierarchy.mount_point.is_dir() else []
    return bases if own is None or own in bases else [*bases, own]


def _accounting(mounted: Sequence[Hierarchy]) -> Place | None:
    """Returns the first writable directory that accounts CPU time."""
    for hierarchy in mounted:
        if "cpuacct" not in hierarchy.controllers or hierarchy.read_only:
            continue
        for base in _bases(hierarchy):
            if os.access(base, os.W_OK):
                return ((hierarchy, base),)
    return None
