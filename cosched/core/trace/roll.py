"""Who is on a node, as the events of its machine tell: for those who read its steps.

A job ends with its last task, whether it has a class then or not: of a released one's end
the machine has nothing to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cosched.core.node.messages import (
    Command,
    Event,
    Job,
    ShutdownRequested,
    Task,
    TaskExited,
    TaskRegistered,
)


class Roll:
    """The tasks of each job. ``tasks``: those that were there before the first event."""

    def __init__(self, tasks: Mapping[Job, Iterable[Task]]) -> None:
        self._tasks = {job: set(known) for job, known in tasks.items()}

    def take(self, event: Event) -> Job | None:
        """Takes the next event; the job that ended with it, if one did."""
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
                self._tasks.clear()  # they go on, and nobody counts them
        return None


def tasks_before(
    job: Job, steps: Iterable[tuple[Event, tuple[Command, ...]]], now: Iterable[Task]
) -> set[Task]:
    """The job's tasks before these steps, of which it had ``now`` after them."""
    exits_first: dict[Task, bool] = {}
    for event, _ in steps:
        if isinstance(event, (TaskRegistered, TaskExited)) and event.job == job:
            if isinstance(event, TaskRegistered) and event.replaces is not None:
                exits_first.setdefault(event.replaces, True)
            exits_first.setdefault(event.task, isinstance(event, TaskExited))
    there = {task for task, exits in exits_first.items() if exits}
    return there.union(task for task in now if task not in exits_first)
