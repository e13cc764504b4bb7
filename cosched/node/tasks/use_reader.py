"""Reads what the jobs of a node do with their CPUs.

The order of the jobs needs it (``core.node.cpu_need``), and so do the accounts of filled
waits (``core.trace.filling``).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cosched.core.node.cpu_need import Use
from cosched.core.node.messages import Job, UseRead
from cosched.core.units import NS_PER_MS
from cosched.linux.task_times import thread_times
from cosched.node.driver import Driver, clocks
from cosched.node.records.history_writer import HistoryWriter
from cosched.node.tasks.job_table import JobTable
from cosched.node.tasks.live_job import LiveJob

#: The least time between two readings.
USE_NS = 500 * NS_PER_MS
#: Readings are as far apart as this part of the time since the last job came. Each one is a
#: step in the trace and in the memory of ``why``, so a long run must not fill these.
AGE_PART = 16


#: What was read serves every account that asks for it within this time, as at one switch.
FRESH_NS = 2 * NS_PER_MS


class CpuTimes:
    """Reads the CPU times of the jobs' classes for all accounts.

    ``read_ns`` returns the CPU time of a class, or None if it is unknown. Accounts that ask
    at one moment get the same reading.
    """

    def __init__(self, read_ns: Callable[[Job], int | None]) -> None:
        self._read_ns = read_ns
        self._began_ns = 0  # when the readings began that are kept
        self._kept: dict[Job, int | None] = {}

    def __call__(self, job: Job) -> int | None:
        """Returns the CPU time of a job, at most ``FRESH_NS`` old."""
        now_ns = time.monotonic_ns()
        if now_ns - self._began_ns > FRESH_NS:
            self._began_ns = now_ns
            self._kept.clear()
        if job not in self._kept:
            self._kept[job] = self._read_ns(job)
        return self._kept[job]


class UseReader:
    """Reads the waits and the CPU time of all jobs.

    ``cpu_ns`` returns the CPU time of a job's class.
    """

    def __init__(
        self,
        driver: Driver,
        jobs: JobTable,
        history: HistoryWriter,
        cpu_ns: Callable[[Job], int | None],
    ) -> None:
        self._driver = driver
        self._jobs = jobs
        self._history = history
        self._cpu_ns = cpu_ns
        self._known: frozenset[Job] = frozenset()
        self._came_ns = 0  # when the last job came
        self._read_ns = 0  # the last reading

    def read(self) -> None:
        """Reads all jobs, unless the last reading is too recent."""
        now_ns = time.monotonic_ns()
        if now_ns - self._read_ns < USE_NS:
            return
        known = frozenset(job.key for job in self._jobs)
        if not known <= self._known:
            self._came_ns = now_ns
        self._known = known
        apart_ns = max(USE_NS, (now_ns - self._came_ns) // AGE_PART)
        if not known or now_ns - self._read_ns < apart_ns:
            return
        self._read_ns = now_ns
        uses = tuple(
            (job.key, Use(job.waits_ns, self._cpu_ns(job.key), _wanted_ns(job)))
            for job in self._jobs
        )
        self._driver.feed(UseRead(**clocks(), uses=uses))
        for key, state in self._driver.machine.jobs.items():
            self._history.note_need(key, state.need)


def _wanted_ns(job: LiveJob) -> int | None:
    """Returns how long the tasks of a job had or wanted a CPU, in sum; None if the kernel
    has no such account of one of them."""
    wanted_ns = 0
    for task in job.tasks.values():
        if task.is_launcher:
            continue
        times = thread_times(task.pid)
        if times is None:
            return None
        wanted_ns += sum(times)
    return wanted_ns
