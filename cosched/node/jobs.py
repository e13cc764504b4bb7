"""The live side of the process table: regions, bells and a pidfd for each task.

Core knows jobs and tasks by key and pid; this table knows what the kernel holds for
them. Everything here is made when the first task of a job registers and is gone when
the last one has left.
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
    """What a process says of itself when it registers."""

    rank: int
    world: int
    carrier: int
    launched: bool


@dataclass(slots=True)
class LiveTask:
    """A registered process. ``pidfd`` becomes readable when it ends; pid and
    ``start_ticks`` together are no other process's. ``launched``: it has not come to MPI
    yet, so that it does not know of its slot."""

    pid: int
    pidfd: int
    slot: int
    rank: int
    world: int
    start_ticks: int
    launched: bool = False


@dataclass(slots=True)
class LiveJob:
    """A job's region and bell, and its tasks by pid. ``declared_bytes`` is the memory that
    it said it needs here; not read from the region, into which its user can write.

    The bell is open twice: this daemon reads ``bell``, and tasks get ``task_bell_fd``. A
    task can clear O_NONBLOCK on its descriptor, which must not make our reads wait.
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
        """The live task that owns a slot; requests name slots, not pids."""
        return next((t for t in self.tasks.values() if t.slot == slot), None)

    def above(self, pid: int) -> LiveTask | None:
        """The nearest of its tasks that has started this process, through others or not."""
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
        """The job in which a process is registered."""
        return next((job for job in self._jobs.values() if pid in job.tasks), None)

    def create(self, name: str, uid: int, gid: int) -> LiveJob:
        """Region and bell for a job that has no task here yet."""
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
        """A slot and a pidfd, a copy of ``held``, for a process that registers.

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
        """The same for one that has registered before; what it counted then is gone."""
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
        """Frees what the table holds for a task that left."""
        task = job.tasks.pop(pid)
        job.region.vacate(task.slot)
        os.close(task.pidfd)

    def destroy(self, job: LiveJob) -> None:
        """Removes a job's region and bell, and what is left of its tasks."""
        for pid in list(job.tasks):
            self.remove_task(job, pid)
        del self._jobs[job.key]
        os.close(job.bell)
        os.close(job.task_bell_fd)
        self._paths.bell(job.key).unlink(missing_ok=True)
        job.region.close()
        job.region.unlink()

    def adopt(self) -> list[str]:
        """Takes over the jobs that a dead daemon left, as far as their tasks live.

        Returns a line for each region that could not be taken over; those and regions
        without live tasks are removed.
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
                live.remove(twin)  # its user has written it into two of his regions
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
    """A bell to hear, and what its job's tasks get to ring it."""
    bell = open_bell(path)
    try:
        return bell, open_bell(path)
    except OSError:
        os.close(bell)
        raise


def left_regions(paths: NodePaths) -> list[str]:
    """Names of the job regions of this node that exist, whoever made them."""
    prefix = paths.job_region_prefix.removeprefix("/")
    return sorted(f"/{path.name}" for path in SHM.glob(f"{prefix}*"))


def attach_left(paths: NodePaths, name: str) -> tuple[str, JobRegion]:
    """The key and the region of a job that a dead daemon left.

    Anybody may put a file of that name into /dev/shm. It is believed if it belongs to the
    user in its name and a daemon of this node has made the job's bell, which only daemons
    can. CoschedError otherwise.
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
    """The tasks recorded in a region whose processes still run, each with a pidfd."""
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
