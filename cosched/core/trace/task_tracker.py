"""Tracks which tasks are on a node, from the events of its machine.

A job ends with its last task, whether it has a class or not: the machine returns no command
when a released job ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cosched.core.node.messages import (
    Event,
    Job,
    ShutdownRequested,
    Task,
    TaskExited,
    TaskRegistered,
)


class TaskTracker:
    """The tasks of each job. ``tasks`` are those before the first event."""

    def __init__(self, tasks: Mapping[Job, Iterable[Task]]) -> None:
        self._tasks = {job: set(known) for job, known in tasks.items()}

    def tasks_of(self, job: Job) -> frozenset[Task]:
        """Returns the tasks of a job after the last event."""
        return frozenset(self._tasks.get(job, ()))

    def take(self, event: Event) -> Job | None:
        """Takes the next event; returns the job whose last task left with it."""
        match event:
            case TaskRegistered():
                known = self._tasks.setdefault(event.job, set())
                known.discard(event.replaces or event.task)
                known.add(event.task)
            case TaskExited() if event.task in self._tasks.get(event.job, ()):
                self._tasks[event.job].discard(event.task)
                if not self._tasks[event.job]:
                    del self._tasks[event.job]
                    return event.job
            case ShutdownRequested():
                self._tasks.clear()  # the tasks go on uncounted
        return None
