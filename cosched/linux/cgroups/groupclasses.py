"""Implements the parts of the class scheduler that both cgroup versions share.

Each class is one group, below one group for all classes of the tag:

    BASE/cosched-TAG          weight: the default times the CPUs that the classes use
                              (``top_weight``)
    BASE/cosched-TAG/JOB      weight or quota: the job's percent times its CPUs; for an
                              unscheduled job at most as many CPUs as it has tasks

**Normal shares.** After ``create`` and ``restore`` each class has the default weight times
its CPUs and no quota. Beside classes with shares that is about 1%, so a new class changes
little before the next switch. ``restore`` also gives the top the sum of these weights. Each
class then competes on a CPU as one task would.

**The switch** is one write for each class whose value changes, usually two, on open file
descriptors.

Limits. The kernel applies new weights when it next chooses a task. If all tasks spin, that
is a tick. At 250 Hz a class with 1% runs for 4 ms every 400 ms. A switch takes one or two
ticks unless the CPUs are kicked (``linux.native.kick``). A quota belongs to the class, not
to a CPU. The kernel gives it out in pieces of 5 ms, so at 1% one CPU may use all of it. A
process that a task starts stays in the task's class and leaves it with the task.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from cosched.core.errors import CoschedError
from cosched.core.node.groups import is_waiting_share
from cosched.linux import proc
from cosched.linux.cgroups import freezer
from cosched.linux.cgroups.cgroupfs import (
    GONE,
    MOVES_MOST,
    Hierarchy,
    Tree,
    members,
    why,
    why_not_moved,
    write,
)
from cosched.linux.cgroups.controls import Controls
from cosched.linux.cgroups.knobs import Knobs, Setting, quota_settings
from cosched.linux.cgroups.leftovers import Leftovers
from cosched.linux.cgroups.shares import (
    UNLIMITED_US,
    normal_weights,
    weights,
    width,
)
from cosched.linux.cgroups.top_weight import TopWeight
from cosched.linux.classes import (
    ClassLocation,
    ShareRefused,
    Way,
    check_key,
    check_mode,
    unknown_class,
)


class _Group(Struct):
    """A class that this object made or took over."""

    cpus: frozenset[int]
    usage: int | None
    starts: dict[int, int] = field(default_factory=dict)
    """The start times of the added processes, by pid."""


Place = tuple[tuple[Hierarchy, Path], ...]
"""A place for a tag's groups: hierarchies and the directory in each. The first has the cpu
controller; a second one, if any, accounts CPU time."""


class GroupClasses:
    """The class scheduler over groups, common to both versions."""

    name: str
    pulse_period_ns: int | None = None

    # The version has its own.
    tree_type: type[Tree] = Tree
    controls: Controls

    def __init__(self, place: Place, tag: str, mode: str) -> None:
        self.mode = check_mode(mode)
        check_key(tag)
        self._trees = [self.tree_type(hierarchy, base, tag) for hierarchy, base in place]
        self._strict = mode == "strict"
        self._groups: dict[str, _Group] = {}
        self._widths: dict[str, int] = {}
        self._percents: dict[str, int] = {}
        self._bounded: frozenset[str] = frozenset()
        self._knobs = Knobs[tuple[str, str]]()
        self._top_weight = TopWeight(self.top, self.controls)
        #: Shares may differ from those that were written, or widths have changed, which
        #: changes the scale of all weights.
        self._rewrite = False
        self._frozen: set[str] = set()
        self._leftovers = Leftovers(self._trees)

    @property
    def hierarchy(self) -> Hierarchy:
        """The hierarchy with the cpu controller."""
        return self._trees[0].hierarchy

    @property
    def base(self) -> Path:
        """The directory in which the tag's groups are."""
        return self._trees[0].base

    @property
    def top(self) -> Path:
        """The directory of the tag's groups."""
        return self._trees[0].top

    def jobs_on_disk(self) -> list[str]:
        """Returns the jobs that have a class, from this or another process."""
        return self._trees[0].jobs()

    def where(self) -> str:
        """Returns the directory of the classes, for display."""
        return str(self.top)

    def has(self, job: str) -> bool:
        """Returns whether the job has a class here."""
        return job in self._groups

    def class_directory(self, job: str) -> Path:
        """Returns the directory of the job's class."""
        return self._trees[0].path(job)

    # -- classes and members ----------------------------------------------------------

    def create(self, job: str, cpus: frozenset[int]) -> None:
        known = self._groups.get(check_key(job))
        if known is not None:
            known.cpus = cpus
            self._set_width(job)
            self._weigh_top()
            return
        try:
            for tree in self._trees:
                tree.make(job)
            self._groups[job] = self._open(job, cpus)
            self._set_width(job)
            self._normalise(job, normal_weights(self._widths, self.controls.scale)[job])
        except OSError as error:
            self._forget(job)
            raise CoschedError(f"class {job}: cannot be made: {why(error)}") from None
        self._leftovers.discard(job)
        try:
            self._weigh_top()
        except CoschedError:
            self._forget(job)  # it would get no shares, so its tasks stay outside
            raise

    def _set_width(self, job: str) -> None:
        self._widths[job] = max(1, len(self._groups[job].cpus))
        self._rewrite = True

    def _open(self, job: str, cpus: frozenset[int]) -> _Group:
        file = self.controls.quota_file if self._strict else self.controls.weight_file
        self._knobs.open((job, file), self.class_directory(job) / file)
        usage = None
        # Without a mounted accounting hierarchy the CPU time stays unknown.
        with contextlib.suppress(OSError):
            path = self._trees[-1].path(job) / self.controls.usage_file
            usage = os.open(path, os.O_RDONLY)
        return _Group(cpus, usage)

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        if job not in self._groups:
            raise unknown_class(job)
        if start_ticks is None:
            start_ticks = proc.start_ticks(pid, self._trees[0].hierarchy.root)
        try:
            for tree in self._trees:
                tree.move_in(job, pid, start_ticks)
        except OSError as error:
            raise CoschedError(f"class {job}: {why_not_moved(pid, error)}") from None
        if start_ticks is not None:
            self._groups[job].starts[pid] = start_ticks
            if job in self._percents:
                # An unscheduled class weighs by its members.
                self._write_shares(self._percents)

    def remove(self, job: str, pid: int) -> None:
        group = self._groups.get(job)
        start_ticks = group.starts.pop(pid, None) if group is not None else None
        self._rewrite = True
        added = group.starts if group is not None else {}
        root = self._trees[0].hierarchy.root
        started = proc.started_by(pid, MOVES_MOST, lambda child: child not in added, root)
        leaving = {pid: start_ticks} | {p: proc.start_ticks(p, root) for p in started}
        with contextlib.ExitStack() as steps:  # a failed step must not skip the others
            for each, ticks in reversed(leaving.items()):
                if job in self._frozen and ticks is not None:
                    directory = self._trees[0].path(job)
                    steps.callback(freezer.thaw_removed, directory, each, ticks)
                for tree in reversed(self._trees):
                    steps.callback(tree.give_back, job, each)

    def destroy(self, job: str) -> None:
        if job in self._frozen:
            self.thaw(job)
        self._forget(check_key(job))
        for tree in self._trees:
            tree.empty(job)
        self._leftovers.add(job)
        self._leftovers.remove()
        if self._groups:
            self._weigh_top()
        else:
            self._top_weight.forget()

    def _forget(self, job: str) -> None:
        group = self._groups.pop(job, None)
        if group is not None and group.usage is not None:
            os.close(group.usage)
        for file in (self.controls.weight_file, self.controls.quota_file):
            self._knobs.close((job, file))
        self._widths.pop(job, None)
        self._rewrite = True
        self._percents.pop(job, None)

    # -- suspension ---------------------------------------------------------------------

    def freeze(self, job: str) -> None:
        if job not in self._groups:
            raise unknown_class(job)
        try:
            freezer.freeze(self._trees[0].path(job))
        except OSError as error:
            raise CoschedError(f"class {job}: cannot be frozen: {why(error)}") from None
        self._frozen.add(job)

    def thaw(self, job: str) -> None:
        self._frozen.discard(check_key(job))
        try:
            freezer.thaw(self._trees[0].path(job))
        except OSError as error:
            raise CoschedError(f"class {job}: cannot be thawed: {why(error)}") from None

    # -- shares -------------------------------------------------------------------------

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        known = {job: p for job, p in percents.items() if job in self._groups}
        self._percents |= known
        if not self._rewrite:
            return self._write_shares(known)
        self._rewrite = False
        if self._groups:
            self._weigh_top()
        return self._write_shares(self._percents)

    def bound(self, jobs: frozenset[str]) -> None:
        """Bounds these jobs by a quota too while they are unscheduled, and no others.

        Weights count inside the top only. These jobs compete with jobs outside of it."""
        if self._strict or jobs == self._bounded:
            return
        self._bounded = jobs
        if self._percents:
            self._write_shares(self._percents)

    def _write_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        """Writes these shares, where they changed.

        Returns the CPUs of the changed classes."""
        changed, errors = self._knobs.write(self._wanted(percents))
        touched = frozenset[int]().union(*(self._groups[job].cpus for job, _ in changed))
        for (job, _), error in errors.items():
            self._rewrite = True
            raise ShareRefused(str(self._write_error(job, error)), touched)
        return touched

    def _wanted(self, percents: Mapping[str, int]) -> dict[tuple[str, str], Setting]:
        """Returns the values for the control files of each class that has a share."""
        widths = {
            job: width(percent, self._widths[job], len(self._groups[job].starts))
            for job, percent in percents.items()
        }
        if self._strict:
            return quota_settings(self.controls, percents, widths)
        for job in self._bounded & percents.keys():
            # A kernel without bandwidth control has no such file and no quotas.
            with contextlib.suppress(FileNotFoundError):
                file = self.controls.quota_file
                self._knobs.open((job, file), self.class_directory(job) / file)
        waiting = {j for j, p in percents.items() if is_waiting_share(p)}
        free = dict.fromkeys(percents.keys() - (self._bounded & waiting), 100)
        widest = max(self._widths.values(), default=1)
        shares = weights(percents, widths, self.controls.scale, widest)
        return {
            (job, self.controls.weight_file): Setting(weight, str(weight))
            for job, weight in shares.items()
        } | quota_settings(self.controls, {**percents, **free}, widths)

    def _write_error(self, job: str, error: OSError) -> CoschedError:
        path = self._trees[0].path(job)
        if error.errno == errno.ENODEV:
            return CoschedError(f"class {job}: {path} was removed; end the job")
        return CoschedError(f"class {job}: {path} refuses its share: {error.strerror}")

    def _normalise(self, job: str, weight: int) -> None:
        """Writes the default weight times CPUs, and no quota. OSError passes through."""
        directory, files = self.class_directory(job), self.controls
        write(directory / files.weight_file, str(weight))
        unlimited = files.quota_text(UNLIMITED_US)
        if self._strict:
            write(directory / files.quota_file, unlimited)
        else:
            # A kernel without bandwidth control has no such file and no quotas.
            with contextlib.suppress(FileNotFoundError):
                write(directory / files.quota_file, unlimited)
        self._knobs.note((job, files.weight_file), weight)
        self._knobs.note((job, files.quota_file), UNLIMITED_US)

    def _weigh_top(self) -> None:
        cpus = frozenset[int]().union(*(group.cpus for group in self._groups.values()))
        self._top_weight.set_for(len(cpus))

    # -- accounts -----------------------------------------------------------------------

    def cpu_ns(self, job: str) -> int | None:
        group = self._groups.get(job)
        if group is None or group.usage is None:
            return None
        try:
            return self.controls.usage_ns(os.pread(group.usage, 4096, 0))
        except OSError:
            return None

    def pulse(self) -> None:
        """Does nothing: the kernel gives each class its share."""

    def place(self, job: str) -> ClassLocation:
        return ClassLocation((Way.MOVED,), (str(self.class_directory(job)),))

    def inspect(self) -> None:
        """Does nothing: no other program uses these groups."""

    # -- the way back -------------------------------------------------------------------

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        jobs = self._trees[0].jobs()
        if not jobs:
            return
        widths = {job: self._widths.get(job) or self._measured_width(job) for job in jobs}
        normal = normal_weights(widths, self.controls.scale)
        failed: CoschedError | None = None
        for job, weight in normal.items():
            try:
                self._normalise(job, weight)
            except OSError as error:
                if error.errno not in GONE:
                    failed = failed or self._write_error(job, error)
        self._top_weight.forget()
        # If the top is gone by now, no class needs its weight.
        with contextlib.suppress(CoschedError):
            self._top_weight.set(sum(normal.values()))
        self._percents = {}
        self._rewrite = True
        if failed is not None:
            raise failed

    def _measured_width(self, job: str) -> int:
        """Returns the number of CPUs of the members of another process's class."""
        tree = self._trees[0]
        cpus: set[int] = set()
        for pid in members(tree.path(job)):
            cpus |= proc.cpu_affinity(pid, tree.hierarchy.root)
        return max(1, len(cpus))

    def vacate(self) -> None:
        for tree in self._trees:
            try:
                tree.vacate()
            except OSError as error:
                raise CoschedError(
                    f"{tree.base}: takes no daemon while these jobs run: {why(error)}"
                ) from None

    def close(self) -> None:
        # A class that cannot be removed must not prevent the removal of the others.
        with contextlib.ExitStack() as steps:
            steps.callback(self.tidy)
            steps.callback(self._leftovers.await_removal)
            for job in {
                *self._groups,
                *(job for tree in self._trees for job in tree.jobs()),
            }:
                steps.callback(self.destroy, job)

    def tidy(self) -> None:
        """Removes the parents of the classes if no process has classes there."""
        for tree in self._trees:
            tree.tidy()
        self._top_weight.forget()
