"""Keeps the live jobs of a node: regions, bells and a pidfd for each task.

The core has jobs and tasks by key and pid. This table has their kernel objects. They are
made when the first task of a job registers, and removed when the last task has left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.pidfd import exited
from cosched.node.bell import make_bell, open_bell
from cosched.node.tasks.left import find_left
from cosched.node.tasks.live_job import Claim, LiveJob, LiveTask
from cosched.rundir.paths import NodePaths, job_key
from cosched.shm.objects import remove_object
from cosched.shm.region import JobRegion


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
        slot = job.region.free_slot(claim.phase)
        if slot is None:
            raise CoschedError(f"job '{job.name}': this node holds no more of its tasks")
        ticks = proc.start_ticks(pid)
        if ticks is None or exited(held):
            raise ProcessLookupError(f"process {pid} has ended")
        pidfd = os.dup(held)
        task = LiveTask(pid, pidfd, slot, claim.rank, claim.world, ticks, claim.phase)
        job.tasks[pid] = task
        self._write(job, task, claim)
        return task

    def renew_task(self, job: LiveJob, pid: int, claim: Claim) -> LiveTask:
        """Registers a task of the job again; its counters start again."""
        task = job.tasks[pid]
        task.rank, task.world, task.phase = claim.rank, claim.world, claim.phase
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
            phase=claim.phase,
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

        Removes the other regions of dead daemons. Returns a line for each that could not
        be taken over.
        """
        found, refused = find_left(self._paths)
        for region_name in refused:
            remove_object(region_name)
            key = region_name.removeprefix(self._paths.job_region_prefix)
            self._paths.bell(key).unlink(missing_ok=True)
        for left in found:
            key, region = left.key, left.region
            for twin in [pid for pid in left.tasks if self.job_of(pid) is not None]:
                os.close(left.tasks.pop(twin).pidfd)  # its user wrote it into two regions
            if not left.tasks:
                region.close()
                region.unlink()
                self._paths.bell(key).unlink(missing_ok=True)
                continue
            bell, task_bell_fd = _open_both(self._paths.bell(key))
            name = key.partition(".")[2]
            job = LiveJob(key, name, region.owner, region, bell, task_bell_fd)
            self._jobs[key] = job
            job.tasks.update(left.tasks)
            for task in job.tasks.values():
                job.carrier = region.data.tasks[task.slot].identity.carrier
        return [str(error) for error in refused.values()]

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
