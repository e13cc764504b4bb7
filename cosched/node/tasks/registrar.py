"""Decides whether a process becomes a task of its job, and which task it replaces."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterable

from cosched.core.config.limits import limits_for, refuse_task
from cosched.core.config.schema import Limits
from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.core.node.job import began_after_s
from cosched.core.node.machine import NodeScheduler
from cosched.linux.pidfd import exited
from cosched.node.sockets.registration import RegistrationRefused, TaskHello, Welcome
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.life import Origin, TaskLife
from cosched.node.tasks.live_job import Claim, LiveJob, LiveTask
from cosched.rundir.paths import job_key
from cosched.service.listener import USERS_SHARE, Peer
from cosched.shm._native import lib
from cosched.shm.region_values import CARRIERS, Phase

#: The most jobs of one user: each needs a region, and the daemon can map only so many.
USERS_JOBS = lib.COSCHED_GUARDED_MAX // USERS_SHARE


class Terms(NamedTuple):
    """The conditions under which a task may register."""

    private: bool  #: only the daemon's user may register tasks
    limits: Limits  #: the operator's limits for tasks and jobs
    #: The most jobs of one user other than root and the daemon's user, so that other users
    #: get regions too.
    most_jobs: int = USERS_JOBS

    def check_task(self, peer: Peer, hello: TaskHello, jobs: Iterable[LiveJob]) -> None:
        """Raises RegistrationRefused if the process may not register."""
        if self.private and peer.uid != os.geteuid():
            raise RegistrationRefused(errno.EACCES, "these daemons are another user's")
        limits = limits_for(self.limits, peer.uid)
        others = [j for j in jobs if j.uid == peer.uid and j.name != hello.job]
        refusal = refuse_task(limits, CARRIERS[hello.carrier], len(others))
        if refusal is not None:
            raise RegistrationRefused(errno.EPERM, refusal)

    def check_new_job(self, peer: Peer, jobs: Iterable[LiveJob]) -> None:
        """Raises RegistrationRefused if the user has ``most_jobs`` jobs here."""
        if peer.uid in (0, os.geteuid()):
            return
        if sum(job.uid == peer.uid for job in jobs) >= self.most_jobs:
            raise RegistrationRefused(
                errno.ENOSPC,
                f"{self.most_jobs} of your jobs run here, the most for one user; "
                "start it when one has ended",
            )


class Registrar:
    """Registers processes as tasks. ``has_ended`` reports whether a pidfd's process has."""

    def __init__(
        self,
        machine: NodeScheduler,
        jobs: JobTable,
        members: TaskLife,
        terms: Terms,
        has_ended: Callable[[int], bool] = exited,
    ) -> None:
        self._machine = machine
        self._jobs = jobs
        self._members = members
        self._terms = terms
        self._has_ended = has_ended

    def register(self, peer: Peer, hello: TaskHello, pidfd: int) -> Welcome:
        """Makes a process a task of its job.

        If that raises RegistrationRefused, the process is no task of any job."""
        earlier = self._jobs.job_of(peer.pid)
        if earlier is not None:
            # Otherwise an old CMDOUT would end the new registration.
            self._members.take_requests(earlier)
        try:
            welcome = self._register(peer, hello, pidfd)
        except RegistrationRefused:
            self._drop_refused(peer.pid, hello)
            raise
        job = self._jobs.job_of(peer.pid)
        if job is not None:
            self._members.relieve_command(job, by=peer.pid)
            if hello.phase.starts_tasks:
                self._members.tend(job)
        return welcome

    def _drop_refused(self, pid: int, hello: TaskHello) -> None:
        """Removes the task of a refused process, and of the shell that started it."""
        for job in self._jobs:
            task = job.tasks.get(pid)
            # Without a free descriptor the shell stays a task.
            with contextlib.suppress(OSError):
                if task is None and hello.phase is Phase.TASK:
                    task = self._launcher(job, pid, hello)
            if task is not None:
                self._members.leave(job, task.pid)

    def _register(self, peer: Peer, hello: TaskHello, pidfd: int) -> Welcome:
        before = self._known(peer, hello)
        self._terms.check_task(peer, hello, self._jobs)
        job = self._find_or_create(peer, hello)
        phase = hello.phase
        if before is not None and not before.is_launcher and phase.starts_tasks:
            phase = before.phase  # a task that starts others stays a task
        claim = Claim(hello.rank, hello.world, hello.carrier, phase)
        try:
            if before is None:
                before = self._launcher(job, peer.pid, hello)
            cpus = frozenset(os.sched_getaffinity(peer.pid))
            task = self._members.take_in(job, peer.pid, pidfd, claim, before)
        except RegistrationRefused:
            raise
        except (CoschedError, OSError) as error:
            self._members.end_if_empty(job)
            raise RegistrationRefused(errno.ENOSPC, str(error)) from None
        replaces = None if before is None else before.pid
        origin = Origin(hello.submitted_ns, hello.expectation)
        self._members.introduce(job, task, cpus, origin, replaces=replaces)
        # A later daemon reads them, so that all nodes keep the same order.
        state = self._machine.jobs[job.key]
        job.expectation = state.expectation
        job.region.record_submission(state.submitted_ns)
        job.region.record_expectation(state.expectation)
        job.limited_by = job.limited_by or hello.limited_by
        job.region.record_limits(job.limited_by)
        return Welcome(task.slot, job.region.size(), job.region.fd, job.task_bell_fd)

    @staticmethod
    def _launcher(job: LiveJob, pid: int, hello: TaskHello) -> LiveTask | None:
        """Returns the launched task, such as a shell, that this process replaces."""
        above = job.above(pid)
        if above is not None and hello.phase is not Phase.TASK:
            # A child of a task is in its class already.
            raise RegistrationRefused(errno.EEXIST, "")
        # A child of a rank that called MPI_Init is a separate program.
        replaces = above is not None and above.phase is Phase.LAUNCHED
        return above if replaces else None

    def _known(self, peer: Peer, hello: TaskHello) -> LiveTask | None:
        """Returns the task of the job that this process already is, if any.

        It called MPI_Init, perhaps again, or became another program. If it is a task of
        another job, it leaves that job."""
        job = self._jobs.job_of(peer.pid)
        if job is None:
            return None
        known = job.tasks[peer.pid]
        same_job = job.key == job_key(peer.uid, hello.job)
        if same_job and not self._has_ended(known.pidfd):
            return known
        self._members.leave(job, peer.pid)
        return None

    def _find_or_create(self, peer: Peer, hello: TaskHello) -> LiveJob:
        job = self._jobs.get(job_key(peer.uid, hello.job))
        if job is not None:
            return job
        self._terms.check_new_job(peer, self._jobs)
        try:
            job = self._members.open_job(hello.job, peer.uid, peer.gid)
        except OSError as error:
            raise RegistrationRefused(
                error.errno or errno.EIO, f"no shared memory for the job: {error}"
            ) from None
        job.began_after_s = began_after_s(hello.submitted_ns, time.time_ns())
        return job
