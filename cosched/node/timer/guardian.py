"""What happens on a node whose scheduler daemon was killed.

The timer daemon outlives it, sees its pipe end, and makes the node as if cosched had
never been there: every class back to the kernel's normal shares, every waiter awake,
every stopped task continued. It then stays until the last task has gone, to remove
regions, bells and classes; or until a new scheduler daemon takes over and ends it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from cosched.core.errors import CoschedError
from cosched.core.node.messages import Mode
from cosched.linux.classes import ClassScheduler
from cosched.node.jobs import LiveTask, attach_left, left_regions, live_tasks
from cosched.node.loop import Loop
from cosched.node.service.lock import locked
from cosched.node.service.remains import remove_remains
from cosched.shm.paths import NodePaths
from cosched.shm.region import JobRegion, unlink_region

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Ward:
    """A job that nobody schedules any more."""

    key: str
    region: JobRegion
    tasks: dict[int, LiveTask]


class Guardian:
    """Restores a node, then removes what its jobs leave.

    What fails for one job is logged, and done for the others.
    """

    def __init__(self, paths: NodePaths, classes: ClassScheduler) -> None:
        self._paths = paths
        self._classes = classes
        self._loop = Loop()
        self._wards: dict[str, Ward] = {}

    def run(self) -> None:
        """Returns when nothing is left; or on SIGTERM, leaving all as it is, because a
        new scheduler daemon takes over."""
        self._loop.stop_on([signal.SIGTERM])
        self._find_wards()
        wards = list(self._wards.values())
        # First of all: who believes that he is not scheduled sleeps, whatever his share.
        for ward in wards:
            ward.region.let_run_freely()
        with _logged():
            self._classes.restore(
                {
                    ward.key: {task.pid: task.start_ticks for task in ward.tasks.values()}
                    for ward in wards
                }
            )
        for ward in wards:
            # Also those that their owners suspended: nobody is here to resume them.
            if ward.region.mode is Mode.SUSPENDED:
                with _logged():
                    self._classes.thaw(ward.key)
            for task in ward.tasks.values():
                self._loop.watch(task.pidfd, lambda w=ward, t=task: self._task_ended(w, t))  # type: ignore[misc]
            self._forget_if_empty(ward)
        if self._wards:
            self._loop.run()
        if not self._wards:
            self._remove_node()

    def _find_wards(self) -> None:
        for name in left_regions(self._paths):
            try:
                key, region = attach_left(self._paths, name)
            except CoschedError as error:
                log.warning("%s", error)
                unlink_region(name)
                continue
            tasks = live_tasks(region, region.owner)
            self._wards[key] = Ward(key, region, {task.pid: task for task in tasks})

    def _task_ended(self, ward: Ward, task: LiveTask) -> None:
        self._loop.unwatch(task.pidfd)
        os.close(task.pidfd)
        del ward.tasks[task.pid]
        self._forget_if_empty(ward)

    def _forget_if_empty(self, ward: Ward) -> None:
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
                return  # a new scheduler daemon begins: all of it is that one's by now
            with _logged():
                self._classes.close()
            remove_remains(self._paths)


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """What fails in the block ends there, with a line in the log."""
    try:
        yield
    except (CoschedError, OSError) as error:
        log.error("%s", error)
