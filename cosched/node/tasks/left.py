"""Finds the jobs that a dead daemon left: their regions and their live tasks."""

from __future__ import annotations

import contextlib
import os
import stat

from msgspec import Struct

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.node.tasks.live_job import LiveTask
from cosched.rundir.paths import NodePaths, check_job_name
from cosched.shm.objects import SHM
from cosched.shm.region import JobRegion


class LeftJob(Struct):
    """A job without a scheduler daemon."""

    key: str  #: the job's name on the node, ``UID.NAME``
    region: JobRegion  #: the job's region, attached
    tasks: dict[int, LiveTask]  #: its live tasks by pid

    @property
    def starts(self) -> dict[int, int]:
        """The start time of each task by pid, in ticks since boot."""
        return {task.pid: task.start_ticks for task in self.tasks.values()}


def find_left(paths: NodePaths) -> tuple[list[LeftJob], dict[str, CoschedError]]:
    """Returns the jobs of a dead daemon, and an error by the name of each other region.

    The other regions are missing, or not as a daemon of this version made them.
    """
    found: list[LeftJob] = []
    refused: dict[str, CoschedError] = {}
    for name in left_regions(paths):
        try:
            key, region = attach_left(paths, name)
        except CoschedError as error:
            refused[name] = error
            continue
        tasks = _live_tasks(region, region.owner)
        found.append(LeftJob(key, region, {task.pid: task for task in tasks}))
    return found, refused


def left_regions(paths: NodePaths) -> list[str]:
    """Returns the names of the job regions that daemons of this node made.

    The bells of the jobs show them. Any user can put names into /dev/shm, so many that to
    look at each would take seconds."""
    try:
        bells = os.listdir(paths.bells)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(paths.job_region(name) for name in bells if not name.startswith("@"))


def named_regions(paths: NodePaths) -> list[str]:
    """Returns all names in /dev/shm that begin as those of this node's job regions."""
    prefix = paths.job_region_prefix.removeprefix("/")
    return [f"/{name}" for name in os.listdir(SHM) if name.startswith(prefix)]


def attach_left(paths: NodePaths, name: str) -> tuple[str, JobRegion]:
    """Returns the key and the region of a job that a dead daemon left.

    Any user may put a file of that name into /dev/shm. So the file must belong to the user
    in its name, and the job's bell must exist, which only daemons can make. Otherwise it
    raises CoschedError.
    """
    key = name.removeprefix(paths.job_region_prefix)
    uid, _, job = key.partition(".")
    check_job_name(job)
    region: JobRegion = JobRegion.attach(name, timeout_s=0)
    why = None
    if uid != str(region.owner):
        why = f"belongs to uid {region.owner}"
    elif not _is_bell(paths, key):
        why = "no daemon of this node made it"
    if why is not None:
        region.close()
        raise CoschedError(f"shared memory {name}: {why}")
    return key, region


def _is_bell(paths: NodePaths, key: str) -> bool:
    try:
        return stat.S_ISFIFO(os.lstat(paths.bell(key)).st_mode)
    except FileNotFoundError:
        return False


def _live_tasks(region: JobRegion, uid: int) -> list[LiveTask]:
    """Returns the tasks of a region whose processes still run, each with a pidfd."""
    found: list[LiveTask] = []
    for slot in region.live_slots():
        identity = region.data.tasks[slot].identity
        pid = int(identity.pid)
        ticks = int(identity.start_ticks)
        with contextlib.suppress(OSError):  # it ended: not live
            pidfd = os.pidfd_open(pid)
            same = proc.start_ticks(pid) == ticks
            known = pid in (task.pid for task in found)
            if same and not known and proc.process_uids(pid) == (uid, uid):
                rank, world = int(identity.rank), int(identity.world)
                phase = region.phase(slot)
                found.append(LiveTask(pid, pidfd, slot, rank, world, ticks, phase))
            else:
                os.close(pidfd)
    return found
