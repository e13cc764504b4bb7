"""Restores a node whose scheduler daemon was killed.

The timer daemon outlives it and reads the end of its pipe. If both were killed, a process
in reserve outlives them (``spare``). As guardian it gives every class
the kernel's normal shares, wakes every waiting task and continues every stopped task. Then
it waits for the last task and removes regions, bells and classes. A new scheduler daemon
takes over earlier and ends it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator

from cosched.core.errors import CoschedError
from cosched.linux.classes import ClassScheduler
from cosched.node.lifetime.remains import remove_remains
from cosched.node.tasks.left import LeftJob, find_left
from cosched.node.tasks.live_job import LiveTask
from cosched.rundir.lock import lock_holder, locked
from cosched.rundir.paths import NodePaths
from cosched.service.loop import Loop
from cosched.shm.objects import remove_object

log = logging.getLogger(__name__)


class Guardian:
    """Restores a node, then removes the objects of its jobs.

    An error about one job is logged; the other jobs are still handled.
    """

    def __init__(
        self, paths: NodePaths, classes: ClassScheduler, after: int | None = None
    ) -> None:
        """``after``: the pid of the scheduler daemon that died, if it is known."""
        self._after = after
        self._paths = paths
        self._classes = classes
        self._loop = Loop()
        self._wards: dict[str, LeftJob] = {}

    def run(self) -> None:
        """Runs until no job is left, or until SIGTERM from a new scheduler daemon."""
        self._loop.stop_on([signal.SIGTERM])
        if self._is_replaced():
            return
        unusable = self._find_wards()
        wards = list(self._wards.values())
        # First wake the tasks: an unscheduled task sleeps with any share.
        for ward in wards:
            ward.region.let_run_freely()
        with _logged():
            self._classes.restore({ward.key: ward.starts for ward in wards})
        for ward in wards:
            # Continue stopped jobs too: no daemon is left that could resume them.
            if ward.region.mode.stops:
                with _logged():
                    self._classes.thaw(ward.key)
            for task in ward.tasks.values():
                self._loop.watch(task.pidfd, lambda w=ward, t=task: self._task_ended(w, t))  # type: ignore[misc]
            self._forget_if_empty(ward)
        self._remove_unusable(unusable)
        if self._wards:
            self._loop.run()
        if not self._wards:
            self._remove_node()

    def _find_wards(self) -> dict[str, CoschedError]:
        """Finds the jobs; returns an error by the name of each unusable region."""
        found, refused = find_left(self._paths)
        self._wards = {ward.key: ward for ward in found}
        return refused

    @staticmethod
    def _remove_unusable(refused: dict[str, CoschedError]) -> None:
        for name in refused:
            remove_object(name)
        if refused:
            first = next(iter(refused.values()))
            log.warning("%d regions are not restored; the first: %s", len(refused), first)

    def _is_replaced(self) -> bool:
        """Returns whether another scheduler daemon has begun, which takes the jobs over.

        A dying one has its lock for an instant more."""
        return lock_holder(self._paths.scheduler_lock) not in (None, self._after)

    def _task_ended(self, ward: LeftJob, task: LiveTask) -> None:
        if self._is_replaced():  # it did not find the timer's lock: the file was removed
            self._loop.stop()
            return
        self._loop.unwatch(task.pidfd)
        os.close(task.pidfd)
        del ward.tasks[task.pid]
        self._forget_if_empty(ward)

    def _forget_if_empty(self, ward: LeftJob) -> None:
        if ward.tasks:
            return
        with _logged():
            self._classes.destroy(ward.key)
        ward.region.close()
        ward.region.unlink()
        self._paths.bell(ward.key).unlink(missing_ok=True)
        del self._wards[ward.key]
        if not self._wards:
            self._loop.stop()

    def _remove_node(self) -> None:
        with locked(self._paths.scheduler_lock) as mine:
            if not mine:
                return  # a new scheduler daemon has taken over
            with _logged():
                self._classes.close()
            remove_remains(self._paths)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Logs an error of the block and ends the block."""
    try:
        yield
    except (CoschedError, OSError) as error:
        log.error("%s", error)
