"""Finds why a process must stay in its group: the limits that it would leave behind.

In version 2 all limits of a group hold for its processes only while they are in it. So a
task that is moved into a class would leave the memory and process limits of its batch step
or login session. Root may leave limits anyway; other users' tasks may not.

A group keeps its processes if it has a limit, or if it belongs to an engine or to a user.
So does an engine's group of one job: its device rules and accounting cannot be read.
Groups that also hold the class do not count: their limits stay.
"""

from __future__ import annotations

import os
from pathlib import Path

from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import Hierarchy, has_delegate_mark
from cosched.linux.cgroups.inplace.job_groups import job_group

_FREE = {
    1: {"cpu.cfs_quota_us": "-1", "cpu.shares": "1024"},
    2: {
        "memory.max": "max",
        "memory.high": "max",
        "memory.swap.max": "max",
        "hugetlb.*.max": "max",
        "pids.max": "max",
        "cpu.max": "max",
        "cpu.weight": "100",
        "cpuset.cpus": "",
        "cpuset.mems": "",
        "io.max": "",
        "rdma.max": "",
        "misc.max": "",
    },
}
"""The files with limits, and the first word that means no limit."""


def why_kept(hierarchy: Hierarchy, group: Path, base: Path) -> str | None:
    """Returns why a task must stay in its group; None if it may move below ``base``."""
    names = group.relative_to(hierarchy.mount_point).parts
    length = job_group(names)
    for index in range(len(names), 0, -1):
        directory = hierarchy.mount_point.joinpath(*names[:index])
        if directory == base or directory in base.parents:
            return None
        if index == length:
            return f"{directory} is an engine's group of one job"
        reason = _limit(directory, hierarchy.version)
        if reason is not None:
            return reason
    return None


def _limit(directory: Path, version: int) -> str | None:
    for pattern, free in _FREE[version].items():
        for file in directory.glob(pattern):
            text = proc.read_text(file)
            if text is not None and text.split(" ")[0].strip() != free:
                return f"{file} is a limit"
    if version == 1:
        return None
    if has_delegate_mark(directory):
        return f"{directory} is delegated to another program"
    try:
        owner = os.stat(directory).st_uid
    except FileNotFoundError:
        return None
    return f"{directory} belongs to uid {owner}" if owner != os.geteuid() else None
