"""Waits for the bells of jobs, and limits the time that a user takes by ringing."""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched.node.bell import silence
from cosched.node.tasks.live import LiveJob
from cosched.service.pacing import Lane, Pacer


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
