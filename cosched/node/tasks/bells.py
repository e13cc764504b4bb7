"""Waits for the bells of jobs, and limits the time that a job takes by ringing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from cosched.node.bell import silence
from cosched.node.loop import Loop
from cosched.node.sockets.pacing import BURST_NS, Allowance
from cosched.node.tasks.live import LiveJob


class JobBells:
    """Calls ``rung(job)`` when a job's bell rings.

    A user's job whose bell rings all the time is read only now and then. The daemon's CPU
    time by ``cpu_ns`` counts, so a preempted daemon does not slow a job down.
    """

    def __init__(
        self,
        loop: Loop,
        rung: Callable[[LiveJob], None],
        cpu_ns: Callable[[], int] = time.thread_time_ns,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._loop = loop
        self._rung = rung
        self._cpu_ns = cpu_ns
        self._now_ns = now_ns
        self._allowance = Allowance(BURST_NS)
        self._jobs: dict[str, LiveJob] = {}
        self._resting: set[str] = set()  # jobs whose bell is not watched for a while

    def watch(self, job: LiveJob) -> None:
        """Waits for the job's bell from now on."""
        self._jobs[job.key] = job
        self._loop.watch(job.bell, lambda: self._read(job))

    def forget(self, job: LiveJob) -> None:
        """Waits for the job's bell no longer."""
        if job.key not in self._resting:
            self._loop.unwatch(job.bell)
        self._resting.discard(job.key)
        self._allowance.forget(job.key)
        del self._jobs[job.key]

    def _read(self, job: LiveJob) -> None:
        began_ns = self._cpu_ns()
        silence(job.bell)
        self._rung(job)
        if job.uid in (0, os.geteuid()) or self._jobs.get(job.key) is not job:
            return
        now_ns = self._now_ns()
        rest_ns = self._allowance.charge(job.key, self._cpu_ns() - began_ns, now_ns)
        if rest_ns:
            self._loop.unwatch(job.bell)
            self._resting.add(job.key)
            self._loop.call_at(now_ns + rest_ns, lambda: self._watch_again(job))

    def _watch_again(self, job: LiveJob) -> None:
        if self._jobs.get(job.key) is job:
            self._resting.discard(job.key)
            self.watch(job)
