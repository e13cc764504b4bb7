"""Reads how the tasks of jobs that share the node spend their time (``linux.task_times``).

The files of a process are gone with it, so they are read now and then, and the last reading
counts. Tasks of other jobs are not read.
"""

from __future__ import annotations

import time
from pathlib import Path

from msgspec import Struct, field

from cosched.core.node.machine import NodeScheduler
from cosched.core.symbiosis.limited import TaskReading, spent_between
from cosched.core.units import NS_PER_S
from cosched.linux.classes import ClassScheduler
from cosched.linux.task_times import stalled_ns, task_times
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob, LiveTask


class _Readings(Struct):
    """The readings of one job: of each task, by pid, the first one and the last one."""

    tasks: dict[int, tuple[TaskReading, TaskReading]] = field(default_factory=dict)
    #: By resource, how long the class had waited at the first and at the last reading.
    stalled: dict[str, tuple[int, int]] = field(default_factory=dict)

    def stalled_s(self, resource: str) -> float | None:
        """Returns how long the class waited for a resource; None if that is unknown."""
        first, last = self.stalled.get(resource, (None, None))
        return None if first is None or last is None else (last - first) / NS_PER_S


class SpendingReader:
    """Reads the jobs of one node that share it."""

    def __init__(
        self,
        machine: NodeScheduler,
        jobs: JobTable,
        history: HistoryWriter,
        classes: ClassScheduler,
    ) -> None:
        self._machine = machine
        self._jobs = jobs
        self._history = history
        self._classes = classes
        self._readings: dict[str, _Readings] = {}

    def read(self) -> None:
        """Reads all tasks; call it about once a second."""
        sharing = [job for job in self._jobs if job.limited_by]
        for key in self._readings.keys() - {job.key for job in sharing}:
            del self._readings[key]
        for job in sharing:
            readings = self._readings.setdefault(job.key, _Readings())
            self._read(job, readings)
            stalls = readings.stalled_s("io"), readings.stalled_s("memory")
            self._history.note_spent(
                job.key, spent_between(readings.tasks.values(), *stalls)
            )

    def _read(self, job: LiveJob, readings: _Readings) -> None:
        state = self._machine.jobs.get(job.key)
        if state is None:
            return
        age_ns = state.age_ns(time.monotonic_ns())
        for task in job.tasks.values():
            found = None if task.is_launcher else _reading(job, task, age_ns)
            if found is not None:
                first, _ = readings.tasks.get(task.pid, (found, found))
                readings.tasks[task.pid] = first, found
        for group in self._classes.place(job.key).groups[:1]:
            for resource in ("io", "memory"):
                now_ns = stalled_ns(Path(group), resource)
                if now_ns is not None:
                    first_ns, _ = readings.stalled.get(resource, (now_ns, now_ns))
                    readings.stalled[resource] = first_ns, now_ns


def _reading(job: LiveJob, task: LiveTask, age_ns: int) -> TaskReading | None:
    times = task_times(task.pid)
    if times is None:
        return None
    return TaskReading(
        age_ns,
        times.on_cpu_ns,
        times.queued_ns,
        job.region.waits_ns(task.slot),
        job.region.counters(task.slot)["naps"],
        times.read_bytes,
        times.written_bytes,
    )
