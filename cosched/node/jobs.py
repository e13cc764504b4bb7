"""Keeps the live side of the process table: regions, bells and a pidfd for each task.

The core has jobs and tasks by key and pid. This table has their kernel objects. They are
made when the first task of a job registers, and removed when the last task has left.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.pidfd import exited
from cosched.node.bell import make_bell, open_bell
from cosched.shm._native import lib
from cosched.shm.objects import SHM
from cosched.shm.paths import NodePaths, check_job_name, job_key
from cosched.shm.region import JobRegion, unlink_region


@dataclass(frozen=True, slots=True)
class Claim:
    """The fields that a process sends about itself when it registers."""

    rank: int
    world: int
    carrier: int
    launched: bool


@dataclass(slots=True)
class LiveTask:
    """A registered process.

    pidfd: becomes readable when the process ends. start_ticks: identifies the process
    together with its pid. launched: the process has not called MPI_Init yet, so it does not
    use its slot."""

    pid: int
    pidfd: int
    slot: int
    rank: int
    world: int
    start_ticks: int
    launched: bool = False


@dataclass(slots=True)
class LiveJob:
    """A job's region, its bell, and its tasks by pid.

    declared_bytes: the memory that the job declared. It is kept here, because the user can
    write into the region. The bell is open twice: the daemon reads ``bell``, and tasks get
    ``task_bell_fd``. Otherwise a task could clear O_NONBLOCK on the daemon's descriptor.
    """

    key: str
    name: str
    uid: int
    region: JobRegion
    bell: int
    task_bell_fd: int
    carrier: int = 0
    declared_bytes: int = 0
    tasks: dict[int, LiveTask] = field(default_factory=dict)

    def task_in_slot(self, slot: int) -> LiveTask | None:
        """Returns the live task that owns a slot; requests name slots, not pids."""
        return next((t for t in self.tasks.values() if t.slot == slot), None)

    def above(self, pid: int) -> LiveTask | None:
        """Returns the nearest ancestor of this process that is a task of the job."""
        above = proc.parent(pid)
        while above is not None and above not in self.tasks:
            above = proc.parent(above)
        return None if above is None else self.tasks[above]


class JobTable:
    """All live jobs of a node."""

    def __init__(self, paths: NodePaths) -> None:
        self._paths = paths
        self._jobs: dict[str, LiveJob] = {}

    def __iter__(self) -> Iterator[LiveJob]:
        return iter(list(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, key: str) -> LiveJob | None:
        return self._jobs.get(key)

    def job_of(self, pid: int) -> LiveJob | None:
        """Returns the job in which a process is registered."""
        return next((job for job in self._jobs.values() if pid in job.tasks), None)

    def create(self, name: str, uid: int, gid: int) -> LiveJob:
        """Makes the region and the bell of a job without tasks."""
        key = job_key(uid, name)
        region_name = self._paths.job_region(key)
        region = JobRegion.create(region_name, name, uid, gid)
        try:
            bell, task_bell_fd = self._make_bell(key, uid, gid)
        except OSError:
            region.close()
            region.unlink()
            self._paths.bell(key).unlink(missing_ok=True)
            raise
        job = self._jobs[key] = LiveJob(key, name, uid, region, bell, task_bell_fd)
        return job

    def add_task(self, job: LiveJob, pid: int, held: int, claim: Claim) -> LiveTask:
        """Adds a process to the job: gives it a slot and copies its pidfd ``held``.

        Raises CoschedError if the region is full, ProcessLookupError if it is dead.
        """
        slot = job.region.free_slot()
        if slot is None:
            raise CoschedError(f"job '{job.name}': this node holds no more of its tasks")
        ticks = proc.start_ticks(pid)
        if ticks is None or exited(held):
            raise ProcessLookupError(f"process {pid} has ended")
        pidfd = os.dup(held)
        task = LiveTask(pid, pidfd, slot, claim.rank, claim.world, ticks, claim.launched)
        job.tasks[pid] = task
        self._write(job, task, claim)
        return task

    def renew_task(self, job: LiveJob, pid: int, claim: Claim) -> LiveTask:
        """Registers a task of the job again; its counters start again."""
        task = job.tasks[pid]
        task.rank, task.world, task.launched = claim.rank, claim.world, claim.launched
        self._write(job, task, claim)
        return task

    @staticmethod
    def _write(job: LiveJob, task: LiveTask, claim: Claim) -> None:
        job.region.occupy(
            task.slot,
            pid=task.pid,
            start_ticks=task.start_ticks,
            rank=claim.rank,
            world=claim.world,
            carrier=claim.carrier,
            launched=claim.launched,
        )
        job.carrier = claim.carrier

    def remove_task(self, job: LiveJob, pid: int) -> None:
        """Removes a task that left, with its slot and pidfd."""
        task = job.tasks.pop(pid)
        job.region.vacate(task.slot)
        os.close(task.pidfd)

    def destroy(self, job: LiveJob) -> None:
        """Removes a job's region, its bell and its remaining tasks."""
        for pid in list(job.tasks):
            self.remove_task(job, pid)
        del self._jobs[job.key]
        os.close(job.bell)
        os.close(job.task_bell_fd)
        self._paths.bell(job.key).unlink(missing_ok=True)
        job.region.close()
        job.region.unlink()

    def adopt(self) -> list[str]:
        """Takes over the jobs of a dead daemon that still have live tasks.

        Removes all other regions. Returns a line for each region that could not be taken
        over.
        """
        problems: list[str] = []
        for region_name in left_regions(self._paths):
            try:
                key, region = attach_left(self._paths, region_name)
            except CoschedError as error:
                problems.append(str(error))
                unlink_region(region_name)
                continue
            uid = region.owner
            live = live_tasks(region, uid)
            for twin in [task for task in live if self.job_of(task.pid) is not None]:
                live.remove(twin)  # its user wrote it into two regions
                os.close(twin.pidfd)
            if not live:
                region.close()
                region.unlink()
                self._paths.bell(key).unlink(missing_ok=True)
                continue
            bell, task_bell_fd = _open_both(self._paths.bell(key))
            name = key.partition(".")[2]
            job = self._jobs[key] = LiveJob(key, name, uid, region, bell, task_bell_fd)
            for task in live:
                job.tasks[task.pid] = task
                job.carrier = region.data.tasks[task.slot].identity.carrier
        return problems

    def _make_bell(self, key: str, uid: int, gid: int) -> tuple[int, int]:
        path = self._paths.bell(key)
        make_bell(path, uid, gid)
        return _open_both(path)


def _open_both(path: Path) -> tuple[int, int]:
    """Opens a bell for the daemon, and a second time for the job's tasks."""
    bell = open_bell(path)
    try:
        return bell, open_bell(path)
    except OSError:
        os.close(bell)
        raise


def left_regions(paths: NodePaths) -> list[str]:
    """Returns the names of the existing job regions of this node."""
    prefix = paths.job_region_prefix.removeprefix("/")
    return sorted(f"/{path.name}" for path in SHM.glob(f"{prefix}*"))


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


def live_tasks(region: JobRegion, uid: int) -> list[LiveTask]:
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
                launched = identity.phase == lib.COSCHED_PHASE_LAUNCHED
                found.append(LiveTask(pid, pidfd, slot, rank, world, ticks, launched))
            else:
                os.close(pidfd)
    return found
