"""Carries out the commands of ``core.node``: shares, status words, timer orders."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from cosched.core.errors import CoschedError
from cosched.core.node.messages import (
    AddTask,
    Command,
    CreateClass,
    DestroyClass,
    FreezeClass,
    Job,
    OrderTimer,
    PublishContention,
    PublishMode,
    PublishStatus,
    RefuseRequest,
    RemoveTask,
    SetAlarm,
    SetClassCpus,
    SetShares,
    ThawClass,
)
from cosched.linux.classes import ClassScheduler, ShareRefused
from cosched.node.records.user_lines import by
from cosched.node.tasks.job_table import JobTable
from cosched.shm.region import JobRegion, NodeRegion

log = logging.getLogger(__name__)

_LEAVING = (RemoveTask, DestroyClass)


class Effects:
    """Carries out the machine's commands on the node."""

    def __init__(
        self,
        classes: ClassScheduler,
        jobs: JobTable,
        region: NodeRegion,
        *,
        kick: Callable[[Iterable[int]], None],
        ring_timer: Callable[[], None],
        set_alarm: Callable[[int], None],
    ) -> None:
        self._classes = classes
        self._jobs = jobs
        self._region = region
        self._kick = kick
        self._ring_timer = ring_timer
        self._set_alarm = set_alarm

    def carry_out(self, commands: Iterable[Command]) -> None:
        """Carries out the commands in order, but leaves classes last: to move a process out
        of a class takes the kernel 10 ms, and other jobs wait for their shares.

        It logs a class that cannot be changed and goes on. The job then runs under the
        kernel's normal shares: cosched fails open.
        """
        for command in sorted(commands, key=lambda one: isinstance(one, _LEAVING)):
            try:
                self._carry_out(command)
            except (CoschedError, OSError) as error:
                live = self._jobs.get(getattr(command, "job", ""))
                extra = None if live is None else by(live.uid)
                log.error("%s failed: %s", command, error, extra=extra)

    def _carry_out(self, command: Command) -> None:
        match command:
            case PublishStatus() | PublishContention() | PublishMode():
                live = self._jobs.get(command.job)
                if live is not None:
                    _publish(live.region, command)
            case FreezeClass(job):
                self._classes.freeze(job)
            case ThawClass(job):
                self._classes.thaw(job)
            case SetShares(percents):
                self._set_shares(percents)
            case OrderTimer():
                self._region.give_orders(command)
                self._ring_timer()
            case CreateClass(job, cpus) | SetClassCpus(job, cpus):
                self._classes.create(job, cpus)
            case AddTask(job, task):
                live = self._jobs.get(job)
                known = live.tasks.get(task) if live is not None else None
                self._classes.add(job, task, known.start_ticks if known else None)
            case RemoveTask(job, task):
                self._classes.remove(job, task)
            case DestroyClass(job):
                self._classes.destroy(job)
            case SetAlarm(at_ns):
                self._set_alarm(at_ns)
            case RefuseRequest(job, task, reason, by_ns):
                log.debug("%s task %d refused: %s, by %d ns", job, task, reason, by_ns)
            case _:
                raise TypeError(f"not a command of a node: {command!r}")

    def _set_shares(self, percents: Iterable[tuple[Job, int]]) -> None:
        try:
            touched = self._classes.set_shares(dict(percents))
        except ShareRefused as refused:
            self._kick(refused.touched)
            raise
        self._kick(touched)


def _publish(
    region: JobRegion, command: PublishStatus | PublishContention | PublishMode
) -> None:
    match command:
        case PublishStatus(job, epoch, scheduled, cause):
            region.publish_status(epoch, scheduled)
            log.debug("%s %s: %s", job, "on" if scheduled else "off", cause.value)
        case PublishContention(_, contended):
            region.publish_contention(contended)
        case PublishMode(_, mode):
            region.publish_mode(mode)
