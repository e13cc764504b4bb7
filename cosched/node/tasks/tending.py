"""Lets launchers leave the jobs that they do not belong to any longer, at each heartbeat.

``core.node.launchers`` decides. A launcher also leaves when it has registered for a job
that is not scheduled (``Registrar.register``), and with such a job's last task
(``TaskLife.leave``).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched.core.node.launchers import IDLE_NS, are_idle
from cosched.core.node.machine import NodeScheduler
from cosched.core.node.messages import Mode
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.life import TaskLife


class Launchers:
    """The launchers of a node. ``cpu_ns`` returns the CPU time of a job's class."""

    def __init__(
        self,
        machine: NodeScheduler,
        jobs: JobTable,
        members: TaskLife,
        cpu_ns: Callable[[str], int | None],
    ) -> None:
        self._machine = machine
        self._jobs = jobs
        self._members = members
        self._cpu_ns = cpu_ns
        #: By key of each starting job: its age and its CPU time at an earlier heartbeat.
        self._looks: dict[str, tuple[int, int]] = {}

    def tend(self) -> None:
        """Looks at all jobs with launchers."""
        if not any(job.launchers for job in self._machine.jobs.values()):
            self._looks.clear()
            return
        starting = {
            key: job
            for key, job in self._machine.jobs.items()
            if job.starting and job.mode is Mode.COSCHEDULED
        }
        self._looks = {k: look for k, look in self._looks.items() if k in starting}
        for job in self._jobs:
            if job.key in starting and self._is_idle(job.key):
                self._members.release_launchers(job)
            else:
                self._members.tend(job)

    def _is_idle(self, key: str) -> bool:
        """Returns whether the launchers of a starting job used next to no CPU time."""
        cpu_ns = self._cpu_ns(key)
        if cpu_ns is None:
            return False
        age_ns = self._machine.jobs[key].age_ns(time.monotonic_ns())
        before_age_ns, before_cpu_ns = self._looks.setdefault(key, (age_ns, cpu_ns))
        if age_ns - before_age_ns < IDLE_NS:
            return False
        self._looks[key] = age_ns, cpu_ns
        return are_idle(cpu_ns - before_cpu_ns, age_ns - before_age_ns)
