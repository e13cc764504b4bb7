"""Turns the life of tasks into events: arrival, takeover, requests, exit.

``JobBells`` limits the time that a user takes by requests.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable

from cosched.core.named_tuples import NamedTuple
from cosched.core.node.job import restored_submission_key
from cosched.core.node.knowledge import Expectation
from cosched.core.node.messages import (
    MessageTrapped,
    Mode,
    TaskExited,
    TaskRegistered,
)
from cosched.linux.proc import started_wall_ns
from cosched.node.bell import silence
from cosched.node.driver import Driver, clocks
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.records.user_lines import by
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import Claim, LiveJob, LiveTask
from cosched.service.loop import Loop
from cosched.service.pacing import Lane, Pacer
from cosched.shm._native import lib
from cosched.shm.region import Request
from cosched.shm.region_values import Phase

log = logging.getLogger(__name__)


class Origin(NamedTuple):
    """Facts from a job's launcher, or from the region of a job that is taken over."""

    submitted_ns: int  #: when the job was submitted, by the wall clock; 0: unknown
    expectation: Expectation  #: how long like jobs ran
    epoch: int = 0  #: where its epochs begin


class TaskLife:
    """The tasks of a node. ``on_job_end()`` is called when a job has ended.

    ``pacer`` has the accounts of their users."""

    def __init__(
        self,
        driver: Driver,
        jobs: JobTable,
        loop: Loop,
        pacer: Pacer,
        history: HistoryWriter,
        on_job_end: Callable[[], None],
    ) -> None:
        self._driver = driver
        self._jobs = jobs
        self._loop = loop
        self._pacer = pacer
        self._history = history
        self._on_job_end = on_job_end
        self._bells = JobBells(pacer, self.take_requests)

    def open_job(self, name: str, uid: int, gid: int) -> LiveJob:
        """Makes a job without tasks; OSError if it cannot be made."""
        job = self._jobs.create(name, uid, gid)
        self._bells.watch(job)
        return job

    def take_in(
        self, job: LiveJob, pid: int, pidfd: int, claim: Claim, before: LiveTask | None
    ) -> LiveTask:
        """Gives the process a slot and removes the task that it replaces.

        Raises CoschedError or OSError if the job cannot have it."""
        if before is not None:
            self._history.task_leaves(job, before)
        if before is not None and before.pid == pid:
            return self._jobs.renew_task(job, pid, claim)
        task = self._jobs.add_task(job, pid, pidfd, claim)
        self._loop.watch(task.pidfd, lambda: self._has_ended(job, pid))
        if before is not None:
            self._loop.unwatch(before.pidfd)
            self._jobs.remove_task(job, before.pid)
        return task

    def introduce(
        self,
        job: LiveJob,
        task: LiveTask,
        cpus: frozenset[int],
        origin: Origin,
        *,
        adopted: bool = False,
        replaces: int | None = None,
    ) -> None:
        """Feeds the registration of a task to the machine."""
        self._driver.recorder.introduce(job, task)
        self._driver.feed(
            TaskRegistered(
                **clocks(),
                job=job.key,
                task=task.pid,
                cpus=cpus,
                submitted_ns=origin.submitted_ns,
                adopted=adopted,
                epoch=origin.epoch,
                replaces=replaces,
                user=job.uid,
                expectation=origin.expectation,
                launcher=task.is_launcher,
            )
        )
        if task.phase is Phase.TASK and not adopted:
            self._history.came_to_mpi(job, task)

    def take_requests(self, job: LiveJob) -> None:
        """Feeds the requests in the job's ring to the machine."""
        for request in job.region.take_requests():
            self._take_request(job, request)

    def _take_request(self, job: LiveJob, request: Request) -> None:
        task = job.task_in_slot(request.slot)
        if task is None:
            return
        if request.code == lib.COSCHED_CMDSCH:
            self._driver.feed(
                MessageTrapped(**clocks(), job=job.key, task=task.pid, epoch=request.epoch)
            )
        elif request.code == lib.COSCHED_CMDOUT:
            self.leave(job, task.pid)

    def _has_ended(self, job: LiveJob, pid: int) -> None:
        """Removes a task whose process has ended; its CMDOUT may not be read yet."""
        began_ns = time.monotonic_ns()
        self.take_requests(job)
        if pid in job.tasks:
            self._history.task_died(job, job.tasks[pid])
            self.leave(job, pid)
        # At once, because other jobs wait for its CPUs; its user rests later.
        self._pacer.charge(job.uid, time.monotonic_ns() - began_ns)

    def leave(self, job: LiveJob, pid: int) -> None:
        """Removes a task, and its job after the last task."""
        self._remove(job, pid)
        self.tend(job)

    def _remove(self, job: LiveJob, pid: int) -> None:
        task = job.tasks[pid]
        self._loop.unwatch(task.pidfd)
        self._history.task_leaves(job, task)
        self._jobs.remove_task(job, pid)
        self._driver.feed(TaskExited(**clocks(), job=job.key, task=pid))

    def tend(self, job: LiveJob) -> None:
        """Lets the launchers leave that do not belong to the job any longer; it ends if it
        has no tasks."""
        now_ns = time.monotonic_ns()
        if job.launchers and not self._driver.machine.keeps_launchers(job.key, now_ns):
            self.release_launchers(job)
        else:
            self.end_if_empty(job)

    def relieve_command(self, job: LiveJob, by: int) -> None:
        """Lets the command leave that starts the launcher: process ``by`` has come."""
        for task in job.launchers:
            if task.phase is Phase.COMMAND and task.pid != by:
                self._remove(job, task.pid)

    def release_launchers(self, job: LiveJob) -> None:
        """Lets the launchers of a job leave it; it ends if it has no tasks."""
        for task in job.launchers:
            self._remove(job, task.pid)
        self.end_if_empty(job)

    def end_if_empty(self, job: LiveJob) -> None:
        """Ends a job without tasks."""
        if not job.tasks:
            self.end(job)
            self._on_job_end()

    def end(self, job: LiveJob) -> None:
        """Writes the job's record and removes it with its remaining tasks."""
        self._history.job_ended(job)
        for task in job.tasks.values():
            self._loop.unwatch(task.pidfd)
        self._bells.forget(job)
        self._jobs.destroy(job)

    def give_up(self, job: LiveJob) -> None:
        """Takes a job with an unusable region out of coscheduling."""
        log.error(
            "job %s: its owner truncated its region; not coscheduled",
            job.key,
            extra=by(job.uid),
        )
        while job.tasks:
            self.leave(job, next(iter(job.tasks)))

    def adopt(self, known: Callable[[LiveJob], None]) -> None:
        """Registers the tasks that a dead daemon left running.

        Calls ``known(job)`` for each job with such tasks."""
        for problem in self._jobs.adopt():
            log.warning("not taken over: %s", problem)
        # A resting job comes first: only a job alone on its CPUs can end its rest.
        for job in sorted(self._jobs, key=lambda job: job.region.mode is not Mode.RESTING):
            self._history.adopt(job)
            self._bells.watch(job)
            job.region.publish_contention(False)  # as in a new machine
            job.expectation = job.region.expectation
            job.limited_by = job.region.limited_by
            epoch = job.region.next_epoch
            origin = Origin(_submission_key(job), job.expectation, epoch)
            back = 0
            for pid, task in list(job.tasks.items()):
                self._loop.watch(task.pidfd, lambda j=job, p=pid: self._has_ended(j, p))  # type: ignore[misc]
                try:
                    cpus = frozenset(os.sched_getaffinity(pid))
                except OSError:
                    continue  # it just ended; its pidfd will report that
                self.introduce(job, task, cpus, origin, adopted=True)
                back += 1
            log.info("took over job %s with %d tasks", job.key, back)
            if back:
                known(job)
            else:
                self.end(job)  # the machine does not have it


def _submission_key(job: LiveJob) -> int:
    began_ns = min(started_wall_ns(task.start_ticks) for task in job.tasks.values())
    return restored_submission_key(job.region.submitted_ns, began_ns, time.time_ns())


class JobBells:
    """Calls ``rung(job)`` when a job's bell rings, in the turn of the job's user.

    The bells of a user who rests are not read. Their requests stay in the rings of the
    jobs, so they only come later. The daemon's CPU time counts, so a preempted daemon does
    not slow a job down.
    """

    def __init__(
        self,
        pacer: Pacer,
        rung: Callable[[LiveJob], None],
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self._pacer = pacer
        self._rung = rung
        self._lane = Lane(cpu_ns)

    def watch(self, job: LiveJob) -> None:
        """Waits for the job's bell from now on."""
        self._pacer.watch(job.uid, self._lane, job.bell, lambda: self._read(job))

    def forget(self, job: LiveJob) -> None:
        """Waits for the job's bell no longer."""
        self._pacer.unwatch(job.bell)

    def _read(self, job: LiveJob) -> None:
        silence(job.bell)
        self._rung(job)
