"""Takes killed tasks of waiting jobs out of their classes, so that they end soon.

A killed process needs the CPU to end. In the class of a job that waits it would get next to
nothing beside a job that computes, and the user's launcher would wait for it. Outside it
has the share of any process, and runs no more code of the user.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from cosched.core.errors import CoschedError
from cosched.core.node.machine import NodeScheduler
from cosched.linux import proc
from cosched.linux.classes import ClassScheduler
from cosched.node.tasks.job_table import JobTable

log = logging.getLogger(__name__)


class KilledTasks:
    """The killed tasks of a node. ``is_killed`` returns whether a process is about to end
    by a signal."""

    def __init__(
        self,
        machine: NodeScheduler,
        jobs: JobTable,
        classes: ClassScheduler,
        is_killed: Callable[[int], bool] = proc.is_killed,
    ) -> None:
        self._machine = machine
        self._jobs = jobs
        self._classes = classes
        self._is_killed = is_killed

    def release(self) -> None:
        """Takes the killed tasks of all jobs that wait out of their classes."""
        for job in self._jobs:
            state = self._machine.jobs[job.key]
            if state.scheduled or not state.mode.takes_part:
                continue
            for pid in filter(self._is_killed, job.tasks):
                try:
                    self._classes.remove(job.key, pid)
                except CoschedError as error:
                    log.error("job %s: %s", job.key, error)
