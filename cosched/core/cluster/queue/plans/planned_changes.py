"""Keeps the starts and changes of size of a plan, in order: shrink, start, grow."""

from __future__ import annotations

from cosched.core.cluster.queue.job import JobId
from cosched.core.cluster.queue.sizes.causes import Cause
from cosched.core.cluster.queue.sizes.resizable_run import ResizableRun


class PlannedChanges:
    """The planned starts and changes of size. free: the nodes that are free by the plan.
    runs: the jobs that it has changed, in the order of their first change."""

    def __init__(self, free: int) -> None:
        self.free = free
        self.runs: dict[JobId, ResizableRun] = {}
        self._causes: dict[JobId, tuple[Cause, ...]] = {}

    def start(self, run: ResizableRun) -> None:
        """Plans the start of a job with its size."""
        self.free -= run.size
        self.runs[run.job.number] = run

    def change(self, run: ResizableRun, cause: Cause) -> None:
        """Plans that a job gets or gives nodes."""
        number = run.job.number
        run.size += cause.by
        self.free -= cause.by
        self.runs[number] = run
        self._causes[number] = (*self._causes.get(number, ()), cause)

    def undo(self, run: ResizableRun) -> None:
        """Takes back the last change of a job."""
        *before, last = self._causes[run.job.number]
        run.size -= last.by
        self.free += last.by
        self._causes[run.job.number] = tuple(before)

    def void(self) -> list[ResizableRun]:
        """Takes back all; returns the jobs that were to start. ``free`` is to be counted
        again."""
        runs = list(self.runs.values())
        for run in runs:
            run.size = run.held
        self.runs.clear()
        self._causes.clear()
        return [run for run in runs if not run.held]

    def in_order(self) -> list[ResizableRun]:
        """Returns the jobs that shrink, then the jobs that start, then the jobs that grow.
        Drops all whose planned size is what they have."""
        shrinks: list[ResizableRun] = []
        starts: list[ResizableRun] = []
        grows: list[ResizableRun] = []
        for number, run in list(self.runs.items()):
            held, size = run.held, run.size
            if size == held:
                del self.runs[number]
                self._causes.pop(number, None)
            else:
                (shrinks if size < held else grows if held else starts).append(run)
        return [*shrinks, *starts, *grows]

    def carry_out(self, run: ResizableRun) -> tuple[Cause, ...]:
        """Returns why a job was changed. It is planned no more."""
        number = run.job.number
        del self.runs[number]
        return self._causes.pop(number, ())
