"""Turns the life of tasks into events: registration, takeover, requests, exit."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from cosched.core.config.limits import limits_for, refuse_task
from cosched.core.config.values import Limits
from cosched.core.errors import CoschedError
from cosched.core.node.job import restored_submission_key
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Event, MessageTrapped, TaskExited, TaskRegistered
from cosched.linux.pidfd import exited
from cosched.linux.proc import started_wall_ns
from cosched.node.bell import silence
from cosched.node.jobs import Claim, JobTable, LiveJob, LiveTask
from cosched.node.loop import Loop
from cosched.node.records.history import HistoryWriter
from cosched.node.records.recorder import Recorder
from cosched.node.sockets.listener import USERS_SHARE, Peer
from cosched.node.sockets.pacing import BURST_NS, Allowance
from cosched.node.sockets.registration import Hello, RegistrationRefused, Welcome
from cosched.shm._native import lib
from cosched.shm.paths import job_key
from cosched.shm.region import CARRIERS, Request

log = logging.getLogger(__name__)

#: The most jobs of one user: each needs a region, and the daemon can map only so many.
USERS_JOBS = lib.COSCHED_GUARDED_MAX // USERS_SHARE


def clocks() -> dict[str, int]:
    """Returns the current times in the form of an event's fields."""
    return {"now_ns": time.monotonic_ns(), "wall_ns": time.time_ns()}


@dataclass(frozen=True, slots=True)
class Terms:
    """The users whose tasks may register: only the daemon's user if ``private``.

    limits: the operator's limits for tasks and jobs."""

    private: bool
    limits: Limits


class Members:
    """The tasks of a node. ``feed`` takes each event; ``on_activity()`` is called when a
    job has ended."""

    def __init__(
        self,
        machine: NodeScheduler,
        jobs: JobTable,
        loop: Loop,
        history: HistoryWriter,
        recorder: Recorder,
        terms: Terms,
        feed: Callable[[Event], None],
        on_activity: Callable[[], None],
    ) -> None:
        self._machine = machine
        self._jobs = jobs
        self._loop = loop
        self._history = history
        self._recorder = recorder
        self._terms = terms
        self._feed = feed
        self._on_activity = on_activity
        self._bells = Allowance(BURST_NS)
        self._resting: set[str] = set()  # jobs whose bell is not watched for a while

    def register(self, peer: Peer, hello: Hello, pidfd: int) -> Welcome:
        """Makes a process a task of its job.

        If that raises RegistrationRefused, the process is no task of any job."""
        self._take_earlier_requests(peer.pid)
        try:
            return self._register(peer, hello, pidfd)
        except RegistrationRefused:
            self._drop_refused(peer.pid, hello)
            raise

    def _take_earlier_requests(self, pid: int) -> None:
        """Takes the requests that a process made before it registers again.

        Otherwise an old CMDOUT would end the new registration."""
        job = self._jobs.job_of(pid)
        if job is not None:
            self._take_requests(job)

    def _drop_refused(self, pid: int, hello: Hello) -> None:
        """Removes the task of a refused process, and of the shell that started it."""
        for job in self._jobs:
            task = job.tasks.get(pid)
            # Without a free descriptor the shell stays a task.
            with contextlib.suppress(OSError):
                if task is None and not hello.launched:
                    task = self._launcher(job, pid, hello)
            if task is not None:
                self._task_left(job, task.pid)

    def _register(self, peer: Peer, hello: Hello, pidfd: int) -> Welcome:
        before = self._known(peer, hello)
        if self._terms.private and peer.uid != os.geteuid():
            raise RegistrationRefused(errno.EACCES, "these daemons are another user's")
        self._check_limits(peer, hello)
        job = self._find_or_create(peer, hello)
        try:
            if before is None:
                before = self._launcher(job, peer.pid, hello)
            cpus = frozenset(os.sched_getaffinity(peer.pid))
            task = self._take_in(job, peer.pid, hello, pidfd, before)
        except RegistrationRefused:
            raise
        except (CoschedError, OSError) as error:
            self._forget_if_empty(job)
            raise RegistrationRefused(errno.ENOSPC, str(error)) from None
        self._recorder.introduce(job, task)
        replaces = None if before is None else before.pid
        self._introduce(job, peer.pid, cpus, hello.submitted_ns, replaces=replaces)
        if not hello.launched:
            self._history.came_to_mpi(job, task)
        # A later daemon reads it, so that all nodes keep the same order.
        job.region.record_submission(self._machine.jobs[job.key].submitted_ns)
        return Welcome(task.slot, job.region.size(), job.region.fd, job.task_bell_fd)

    @staticmethod
    def _launcher(job: LiveJob, pid: int, hello: Hello) -> LiveTask | None:
        """Returns the launched task, such as a shell, that this process replaces."""
        above = job.above(pid)
        if above is not None and hello.launched:
            # A child of a task is in its class already.
            raise RegistrationRefused(errno.EEXIST, "")
        # A child of a rank that called MPI_Init is a separate program.
        return above if above is not None and above.launched else None

    def _known(self, peer: Peer, hello: Hello) -> LiveTask | None:
        """Returns the task of the job that this process already is, if any.

        It called MPI_Init, perhaps again, or became another program. If it is a task of
        another job, it leaves that job."""
        job = self._jobs.job_of(peer.pid)
        if job is None:
            return None
        known = job.tasks[peer.pid]
        same_job = job.key == job_key(peer.uid, hello.job)
        if same_job and not exited(known.pidfd):
            return known
        self._task_left(job, peer.pid)
        return None

    def _take_in(
        self,
        job: LiveJob,
        pid: int,
        hello: Hello,
        pidfd: int,
        before: LiveTask | None,
    ) -> LiveTask:
        """Gives the process a slot and removes the task that it replaces."""
        if before is not None:
            self._history.task_leaves(job, before)
        claim = Claim(hello.rank, hello.world, hello.carrier, hello.launched)
        if before is not None and before.pid == pid:
            return self._jobs.renew_task(job, pid, claim)
        task = self._jobs.add_task(job, pid, pidfd, claim)
        self._loop.watch(task.pidfd, lambda: self._task_left(job, pid))
        if before is not None:
            self._loop.unwatch(before.pidfd)
            self._jobs.remove_task(job, before.pid)
        return task

    def _check_limits(self, peer: Peer, hello: Hello) -> None:
        limits = limits_for(self._terms.limits, peer.uid)
        others = [j for j in self._jobs if j.uid == peer.uid and j.name != hello.job]
        refusal = refuse_task(limits, CARRIERS[hello.carrier], len(others))
        if refusal is not None:
            raise RegistrationRefused(errno.EPERM, refusal)

    def _find_or_create(self, peer: Peer, hello: Hello) -> LiveJob:
        job = self._jobs.get(f"{peer.uid}.{hello.job}")
        if job is not None:
            return job
        self._check_share(peer)
        try:
            job = self._jobs.create(hello.job, peer.uid, peer.gid)
        except OSError as error:
            raise RegistrationRefused(
                error.errno or errno.EIO, f"no shared memory for the job: {error}"
            ) from None
        self._watch_job(job)
        return job

    def _check_share(self, peer: Peer) -> None:
        """Refuses a user's job that would leave too few regions for other users."""
        if peer.uid in (0, os.geteuid()):
            return
        if sum(job.uid == peer.uid for job in self._jobs) >= USERS_JOBS:
            raise RegistrationRefused(
                errno.ENOSPC,
                f"{USERS_JOBS} of your jobs run here, the most for one user; "
                "start it when one has ended",
            )

    def _introduce(
        self,
        job: LiveJob,
        pid: int,
        cpus: frozenset[int],
        submitted_ns: int,
        *,
        adopted: bool = False,
        replaces: int | None = None,
    ) -> None:
        self._feed(
            TaskRegistered(
                **clocks(),
                job=job.key,
                task=pid,
                cpus=cpus,
                submitted_ns=submitted_ns,
                adopted=adopted,
                replaces=replaces,
            )
        )

    def _watch_job(self, job: LiveJob) -> None:
        self._loop.watch(job.bell, lambda: self._read_bell(job))

    def _read_bell(self, job: LiveJob) -> None:
        began_ns = time.thread_time_ns()
        silence(job.bell)
        self._take_requests(job)
        if job.uid in (0, os.geteuid()) or self._jobs.get(job.key) is not job:
            return
        # Only the daemon's CPU time counts, not the time that it was preempted.
        took_ns = time.thread_time_ns() - began_ns
        now_ns = time.monotonic_ns()
        rest_ns = self._bells.charge(job.key, took_ns, now_ns)
        if rest_ns:
            # A bell that rings all the time is read only now and then.
            self._loop.unwatch(job.bell)
            self._resting.add(job.key)
            self._loop.call_at(now_ns + rest_ns, lambda: self._watch_again(job))

    def _watch_again(self, job: LiveJob) -> None:
        if self._jobs.get(job.key) is job:
            self._resting.discard(job.key)
            self._watch_job(job)

    def _take_requests(self, job: LiveJob) -> None:
        for request in job.region.take_requests():
            self._take_request(job, request)

    def _take_request(self, job: LiveJob, request: Request) -> None:
        task = job.task_in_slot(request.slot)
        if task is None:
            return
        if request.code == lib.COSCHED_CMDSCH:
            self._feed(
                MessageTrapped(**clocks(), job=job.key, task=task.pid, epoch=request.epoch)
            )
        elif request.code == lib.COSCHED_CMDOUT:
            self._task_left(job, task.pid)

    def _task_left(self, job: LiveJob, pid: int) -> None:
        task = job.tasks[pid]
        self._loop.unwatch(task.pidfd)
        self._history.task_leaves(job, task)
        self._jobs.remove_task(job, pid)
        self._feed(TaskExited(**clocks(), job=job.key, task=pid))
        self._forget_if_empty(job)

    def _forget_if_empty(self, job: LiveJob) -> None:
        if not job.tasks:
            self._history.job_ended(job)
            self.forget(job)
            self._on_activity()

    def forget(self, job: LiveJob) -> None:
        """Removes a job with its remaining tasks from the node."""
        for task in job.tasks.values():
            self._loop.unwatch(task.pidfd)
        if job.key not in self._resting:
            self._loop.unwatch(job.bell)
        self._resting.discard(job.key)
        self._bells.forget(job.key)
        self._jobs.destroy(job)

    def give_up(self, job: LiveJob) -> None:
        """Takes a job with an unusable region out of coscheduling."""
        log.error("job %s: its owner truncated its region; not coscheduled", job.key)
        for pid in list(job.tasks):
            self._task_left(job, pid)

    def adopt(self, known: Callable[[LiveJob], None]) -> None:
        """Registers the tasks that a dead daemon left running.

        Calls ``known(job)`` for each job with such tasks."""
        for problem in self._jobs.adopt():
            log.warning("not taken over: %s", problem)
        for job in self._jobs:
            self._history.adopt(job)
            self._watch_job(job)
            job.region.publish_contention(False)  # as in a new machine
            submitted_ns = _submission_key(job)
            back = 0
            for pid, task in list(job.tasks.items()):
                self._loop.watch(task.pidfd, lambda j=job, p=pid: self._task_left(j, p))  # type: ignore[misc]
                self._recorder.introduce(job, task)
                try:
                    cpus = frozenset(os.sched_getaffinity(pid))
                except OSError:
                    continue  # it just ended; its pidfd will report that
                self._introduce(job, pid, cpus, submitted_ns, adopted=True)
                back += 1
            if back:
                known(job)
            log.info("took over job %s with %d tasks", job.key, back)


def _submission_key(job: LiveJob) -> int:
    began_ns = min(started_wall_ns(task.start_ticks) for task in job.tasks.values())
    return restored_submission_key(job.region.submitted_ns, began_ns, time.time_ns())
