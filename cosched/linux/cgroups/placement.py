"""Steers each task in the way that its group allows: in place, moved, or duty cycle.

In place: the task is in a group that an engine made for its job. The job's shares are set
there and on the levels above (``cgroups.inplace``). No task is moved, so the engine's
limits, devices and accounts stay.

Moved: the task is in no such group. It goes into a class of our own (``GroupClasses``),
unless it would leave limits that bind its user (``cgroups.kept_groups``), or the operator
forbids moving.

Duty cycle: all other tasks are stopped and continued (``dutycycle``) where they are.

The way of a task can change: a second job's task in the group ends a class in place, and a
group of its own begins one. Jobs that are steered in different ways compete outside of each
other's levels. There a quota bounds them while they are unscheduled.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct, field

from cosched.core.config.words import Move
from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups.freezer import signal_trees
from cosched.linux.cgroups.groupclasses import GroupClasses
from cosched.linux.cgroups.inplace.borrowed import BorrowedGroups
from cosched.linux.cgroups.inplace.choice import Refusal, choose, path_text
from cosched.linux.cgroups.inplace.job_groups import Group
from cosched.linux.cgroups.inplace.levels import Part
from cosched.linux.cgroups.kept_groups import why_kept
from cosched.linux.classes import (
    ClassLocation,
    ClassScheduler,
    ShareRefused,
    Way,
    check_key,
    unknown_class,
)
from cosched.linux.dutycycle import DutyCycle

log = logging.getLogger(__name__)

ROOT_UIDS = (0, 0)


class _Task(Struct):
    """A task and its way. way: None if it could be steered in no way.

    group: its group. within: the class group, if it is steered in place."""

    job: str
    pid: int
    start_ticks: int
    group: Group
    way: Way | None = None
    within: Group = ()
    not_in_place: str | None = None
    not_moved: str | None = None

    @property
    def reason(self) -> str | None:
        """Why it has no better way, for display."""
        if self.not_moved is None:
            return self.not_in_place
        return f"{self.not_in_place}; not moved: {self.not_moved}"


class _Job(Struct):
    cpus: frozenset[int]
    cpu_ns: dict[int, int] = field(default_factory=dict)
    """The last CPU time of each task that is or was steered in place."""


def place_tasks(
    scheduler: ClassScheduler, tag: str, move: Move = Move.FREE
) -> ClassScheduler:
    """Returns the class scheduler that steers each task in its way.

    A duty cycle is returned as it is: it moves no task."""
    if not isinstance(scheduler, GroupClasses):
        return scheduler
    return PlacedClasses(scheduler, tag, move)


class PlacedClasses:
    """The class scheduler of a node whose control groups can be written."""

    def __init__(self, moved: GroupClasses, tag: str, move: Move) -> None:
        self.name = moved.name
        self.mode = moved.mode
        self._moved = moved
        self._move = move
        self._hierarchy = moved.hierarchy
        self._duty = DutyCycle(moved.mode)
        self._borrowed = BorrowedGroups(
            moved.hierarchy, moved.controls, tag, strict=moved.mode == "strict"
        )
        self._jobs: dict[str, _Job] = {}
        self._tasks: dict[int, _Task] = {}
        self._frozen: set[str] = set()
        #: The percent of each job that its class has; empty: all are to be set.
        self._given: dict[str, int] = {}

    # -- classes and members ----------------------------------------------------------

    def create(self, job: str, cpus: frozenset[int]) -> None:
        known = self._jobs.setdefault(check_key(job), _Job(cpus))
        known.cpus = cpus
        self._duty.create(job, cpus)
        if self._moved.has(job):
            self._moved.create(job, cpus)
        self._arrange()

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        if job not in self._jobs:
            raise unknown_class(job)
        if start_ticks is None:
            start_ticks = proc.start_ticks(pid, self._hierarchy.root)
        directory = self._directory_of(pid)
        if start_ticks is None or directory is None:
            return  # it has ended
        before = self._tasks.get(pid)
        if before is not None and before.start_ticks == start_ticks:
            if before.way is not Way.MOVED or directory == self._moved.class_directory(job):
                return
            self._leave(before)  # another program has moved it out of the class
        task = _Task(job, pid, start_ticks, self._group(directory))
        self._tasks[pid] = task
        if self._moved.top in directory.parents:
            self._move_in(task)  # a dead daemon moved it
        self._reconcile()

    def remove(self, job: str, pid: int) -> None:
        task = self._tasks.pop(pid, None)
        if task is None:
            return
        self._leave(task)
        self._reconcile()

    def destroy(self, job: str) -> None:
        with ExitStack() as steps:
            steps.callback(self._reconcile)
            if self._moved.has(job) or job in self._moved.jobs_on_disk():
                steps.callback(self._moved.destroy, job)
            steps.callback(self._duty.destroy, job)
            for task in [t for t in self._tasks.values() if t.job == job]:
                del self._tasks[task.pid]
                if task.way is Way.IN_PLACE:
                    steps.callback(self._leave, task)
        self._jobs.pop(job, None)
        self._frozen.discard(job)

    def _leave(self, task: _Task) -> None:
        """Gives a task up in its present way."""
        way, task.way = task.way, None
        if way is Way.MOVED:
            self._moved.remove(task.job, task.pid)
        elif way is Way.DUTY_CYCLE:
            self._duty.remove(task.job, task.pid)
        elif way is Way.IN_PLACE:
            self._read_cpu_ns(task)
            if task.job in self._frozen:
                others = self._tasks.keys() - {task.pid}
                roots = {task.pid: task.start_ticks}
                signal_trees(roots, signal.SIGCONT, self._hierarchy.root, others)

    def _directory_of(self, pid: int) -> Path | None:
        group = self._hierarchy.group_of(pid)
        return None if group is None else self._hierarchy.directory(group)

    def _group(self, directory: Path) -> Group:
        return directory.relative_to(self._hierarchy.mount_point).parts

    # -- the way of each task -----------------------------------------------------------

    def _reconcile(self) -> None:
        """Gives each task its way; CoschedError if a task can be steered in no way."""
        staying = {
            task.pid: (task.job, task.group)
            for task in self._tasks.values()
            if task.way is not Way.MOVED
        }
        failed: CoschedError | None = None
        ended: dict[str, _Task] = {}
        for pid, found in choose(staying).items():
            task = self._tasks[pid]
            if isinstance(found, Refusal):
                task.not_in_place = found.reason
            else:
                task.not_in_place = self._borrowed.refusal(found)
            if not isinstance(found, Refusal) and task.not_in_place is None:
                if task.way is Way.DUTY_CYCLE:
                    self._leave(task)
                task.way, task.within, task.not_moved = Way.IN_PLACE, found, None
            elif task.way in (None, Way.IN_PLACE):
                if task.way is Way.IN_PLACE:
                    ended.setdefault(task.job, task)
                try:
                    self._steer_elsewhere(task)
                except CoschedError as error:
                    failed = failed or error
        for task in ended.values():
            way = task.way.value if task.way is not None else "none"
            log.warning(
                "job %s: no longer steered in place, since %s; now: %s",
                *(task.job, task.not_in_place, way),
            )
        self._arrange()
        if failed is not None:
            raise failed

    def _steer_elsewhere(self, task: _Task) -> None:
        self._leave(task)
        task.not_moved = self._why_kept(task)
        if task.not_moved is None:
            self._move_in(task)
        else:
            task.way = Way.DUTY_CYCLE
            self._duty.add(task.job, task.pid, task.start_ticks)

    def _move_in(self, task: _Task) -> None:
        if not self._moved.has(task.job):
            self._moved.create(task.job, self._jobs[task.job].cpus)
        self._moved.add(task.job, task.pid, task.start_ticks)
        task.way = Way.MOVED

    def _why_kept(self, task: _Task) -> str | None:
        """Returns why a task may not be moved out of its group."""
        if self._move is Move.NEVER:
            return "move = never in [limits]"
        if proc.process_uids(task.pid, self._hierarchy.root) == ROOT_UIDS:
            return None
        directory = self._hierarchy.mount_point.joinpath(*task.group)
        return why_kept(self._hierarchy, directory, self._moved.base)

    def _arrange(self) -> None:
        """Finds the class groups, and which jobs compete across different ways."""
        self._given.clear()
        counts: dict[str, int] = {}
        members: dict[Group, list[_Task]] = {}
        outside: dict[str, Way] = {}
        for task in self._tasks.values():
            if task.way is Way.IN_PLACE:
                counts[task.job] = counts.get(task.job, 0) + 1
                members.setdefault(task.within, []).append(task)
            elif task.way is not None:
                outside[task.job] = task.way
        parts = {
            group: Part(job, self._jobs[job].cpus, len(tasks), counts[job], None)
            for group, tasks in members.items()
            for job in (tasks[0].job,)
        }
        self._borrowed.arrange(parts, self._rivals(counts, outside))
        duty = {job: way for job, way in outside.items() if way is Way.DUTY_CYCLE}
        rivals = self._rivals(outside, dict.fromkeys(counts, Way.IN_PLACE) | duty)
        self._moved.bound(frozenset(rivals))

    def _rivals(self, jobs: Iterable[str], others: Mapping[str, Way]) -> dict[str, str]:
        """Returns which of these jobs compete with one of the others, and why it counts."""
        found: dict[str, str] = {}
        for job in jobs:
            for other, way in others.items():
                shared = self._jobs[job].cpus & self._jobs[other].cpus
                if other != job and shared:
                    found[job] = f"job {other} is steered in another way: {way.value}"
        return found

    def inspect(self) -> None:
        changed: set[tuple[str, Group, Group]] = set()
        for task in self._tasks.values():
            if task.way is Way.MOVED:
                continue
            directory = self._directory_of(task.pid)
            if directory is None or self._group(directory) == task.group:
                continue  # it is still there, or it has ended and its pidfd reports that
            changed.add((task.job, task.group, self._group(directory)))
            task.group = self._group(directory)
        for job, old, new in sorted(changed):
            log.warning(
                "job %s: tasks left their group %s for %s",
                *(job, path_text(old), path_text(new)),
            )
        if changed:
            self._reconcile()
        else:
            self._borrowed.refresh()

    # -- suspension -------------------------------------------------------------------

    def freeze(self, job: str) -> None:
        if job not in self._jobs:
            raise unknown_class(job)
        self._given.clear()
        self._frozen.add(job)
        if self._moved.has(job):
            self._moved.freeze(job)
        self._duty.freeze(job)
        self._borrowed.leave_out(job)
        self._signal(self._in_place(job), signal.SIGSTOP)

    def thaw(self, job: str) -> None:
        self._given.clear()
        self._frozen.discard(check_key(job))
        with ExitStack() as steps:
            steps.callback(self._moved.thaw, job)
            steps.callback(self._duty.thaw, job)
            steps.callback(self._signal, self._in_place(job), signal.SIGCONT)

    def _in_place(self, job: str) -> list[_Task]:
        tasks = self._tasks.values()
        return [t for t in tasks if t.job == job and t.way is Way.IN_PLACE]

    def _signal(self, tasks: Iterable[_Task], signum: int) -> None:
        roots = {task.pid: task.start_ticks for task in tasks}
        if roots:
            signal_trees(roots, signum, self._hierarchy.root)

    # -- shares -----------------------------------------------------------------------

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        given = self._given
        changed = {job: p for job, p in percents.items() if given.get(job) != p}
        given |= changed
        touched: frozenset[int] = frozenset()
        refusals: list[str] = []
        for part in (self._borrowed, self._moved, self._duty):
            try:
                touched |= part.set_shares(changed)
            except ShareRefused as refused:
                touched |= refused.touched
                refusals.append(str(refused))
        if refusals:
            raise ShareRefused("; ".join(refusals), touched)
        return touched

    @property
    def pulse_period_ns(self) -> int | None:
        stopped = any(task.way is Way.DUTY_CYCLE for task in self._tasks.values())
        return self._duty.pulse_period_ns if stopped else None

    def pulse(self) -> None:
        self._duty.pulse()

    # -- accounts ---------------------------------------------------------------------

    def cpu_ns(self, job: str) -> int | None:
        known = self._jobs.get(job)
        if known is None:
            return None
        for task in self._in_place(job):
            self._read_cpu_ns(task)
        parts = [sum(known.cpu_ns.values()), self._duty.cpu_ns(job) or 0]
        if self._moved.has(job):
            moved_ns = self._moved.cpu_ns(job)
            if moved_ns is None:
                return None
            parts.append(moved_ns)
        return sum(parts)

    def _read_cpu_ns(self, task: _Task) -> None:
        used_ns = proc.process_cpu_ns(task.pid)
        if used_ns is not None and task.job in self._jobs:
            self._jobs[task.job].cpu_ns[task.pid] = used_ns

    def place(self, job: str) -> ClassLocation:
        tasks = [task for task in self._tasks.values() if task.job == job]
        ways = {task.way for task in tasks if task.way is not None}
        groups = {str(self._borrowed.directory(t.within)) for t in self._in_place(job)}
        if Way.MOVED in ways:
            groups.add(str(self._moved.class_directory(job)))
        reasons = sorted({task.reason for task in tasks if task.reason is not None})
        return ClassLocation(
            ways=tuple(way for way in Way if way in ways),
            groups=tuple(sorted(groups)),
            reason=reasons[0] if reasons else None,
            bounded=self._borrowed.bounded.get(job),
        )

    # -- the way back -----------------------------------------------------------------

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        self._given.clear()
        with ExitStack() as steps:
            steps.callback(self._moved.restore, pids)
            steps.callback(self._borrowed.return_all)
            steps.callback(self._duty.restore, {})
            roots = {pid: start for tasks in pids.values() for pid, start in tasks.items()}
            if roots:
                root = self._hierarchy.root
                steps.callback(signal_trees, roots, signal.SIGCONT, root)

    def vacate(self) -> None:
        self._moved.vacate()

    def close(self) -> None:
        with ExitStack() as steps:
            steps.callback(self._moved.close)
            steps.callback(self._borrowed.return_all)
            for job in list(self._jobs):
                steps.callback(self.destroy, job)
