"""The class scheduler over control groups, as far as both versions of them are alike.

One group a class, below one group for all classes of the tag:

    BASE/cosched-TAG          weight: the default times the CPUs that the classes use
    BASE/cosched-TAG/JOB      weight or quota: the job's percent times its CPUs, of
                              which an unscheduled job has no more than it has tasks

**The weight of the top.** The top competes with ordinary programs beside it: daemons,
launchers, programs that are about to start up and register. On each CPU that the
classes use, the top as a whole weighs what one ordinary task weighs, whichever job is
scheduled there. A program beside the classes thus gets half of a CPU at worst, not the 1%
that its job may have later; and it takes no more than that half from the classes.

**Normal shares.** After ``create`` and ``restore`` each class has the default weight times
its CPUs and no quota (beside classes that have their shares already, that is about 1%, so
a new class disturbs nobody before the next switch). ``restore`` also gives the top the sum
of these weights: each class then competes on a CPU, with other classes and with programs
beside them, as one task would.

**The switch** is one write for each class whose value changes, two in the common case, on
file descriptors that stay open.

Limits. Turns are as long as the time between two moments at which the kernel chooses
anew. Where all tasks spin without yielding that is a tick: at 250 Hz a class with 1% runs
for 4 ms every 400 ms, and a switch takes one or two ticks to show if nothing kicks the
CPUs (``linux.kick``). Anything that wakes up on the CPU in between makes turns shorter
and more frequent.
A quota belongs to the class, not to a CPU: the kernel hands it to CPUs in pieces of 5 ms,
so that at 1% the first CPU to ask may take all of a period's time. A process that a task
starts is in the task's class, and leaves it only when the class is destroyed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups import freezer
from cosched.linux.cgroups.cgroupfs import Hierarchy, Tree, members, why, write
from cosched.linux.cgroups.shares import (
    UNLIMITED_US,
    WeightScale,
    in_order,
    normal_weights,
    quotas,
    weights,
    width,
)
from cosched.linux.classes import ShareRefused, check_key, check_mode, unknown_class

# How long ``close`` waits for processes that are on their way out, and how often it looks:
# version 1 tells nobody when the last one has gone.
_CLOSE_PATIENCE_S = 1.0
_CLOSE_INTERVAL_S = 0.005


@dataclass(slots=True)
class _Group:
    """A class that this object has made or taken over."""

    cpus: frozenset[int]
    knob: int
    """Descriptor of the file that a switch writes."""
    usage: int | None
    starts: dict[int, int] = field(default_factory=dict)
    """When those that were added started, by pid."""

    def close(self) -> None:
        os.close(self.knob)
        if self.usage is not None:
            os.close(self.usage)


Place = tuple[tuple[Hierarchy, Path], ...]
"""Where a tag's groups can be: hierarchies and the directory in each, cpu's first, then
where CPU time is accounted if that is another."""


class GroupClasses(ABC):
    """Common to both versions."""

    name: str
    pulse_period_ns: int | None = None

    # What the versions call things.
    tree_type: type[Tree] = Tree
    scale: WeightScale
    weight_file: str
    quota_file: str
    usage_file: str

    def __init__(self, place: Place, tag: str, mode: str) -> None:
        self.mode = check_mode(mode)
        check_key(tag)
        self._trees = [self.tree_type(hierarchy, base, tag) for hierarchy, base in place]
        self._strict = mode == "strict"
        self._groups: dict[str, _Group] = {}
        self._widths: dict[str, int] = {}
        self._percents: dict[str, int] = {}
        self._written: dict[str, int | None] = {}
        self._top_weight: int | None = None
        self._restored = False
        self._frozen: set[str] = set()
        self._leftovers: set[str] = set()

    @staticmethod
    @abstractmethod
    def quota_text(quota_us: int) -> str:
        """What ``quota_file`` takes; UNLIMITED_US is no quota."""

    @staticmethod
    @abstractmethod
    def usage_ns(text: bytes) -> int:
        """CPU time as ``usage_file`` tells it."""

    def where(self) -> str:
        """The directory of the classes, for people."""
        return str(self._trees[0].top)

    # -- classes and members ----------------------------------------------------------

    def create(self, job: str, cpus: frozenset[int]) -> None:
        known = self._groups.get(check_key(job))
        if known is not None:
            known.cpus = cpus
            self._widths[job] = max(1, len(cpus))
            self._weigh_top()
            return
        try:
            for tree in self._trees:
                tree.make(job)
            self._groups[job] = self._open(job, cpus)
            self._widths[job] = max(1, len(cpus))
            self._normalise(job, normal_weights(self._widths, self.scale)[job])
        except OSError as error:
            self._forget(job)
            raise CoschedError(f"class {job}: cannot be made: {why(error)}") from None
        self._leftovers.discard(job)
        try:
            self._weigh_top()
        except CoschedError:
            self._forget(job)  # nobody would give it shares: its tasks are to stay outside
            raise

    def _open(self, job: str, cpus: frozenset[int]) -> _Group:
        knob_file = self.quota_file if self._strict else self.weight_file
        usage = None
        # Whoever mounts accounting elsewhere, or not at all, goes without.
        with contextlib.suppress(OSError):
            usage = os.open(self._trees[-1].path(job) / self.usage_file, os.O_RDONLY)
        try:
            knob = os.open(self._trees[0].path(job) / knob_file, os.O_WRONLY)
        except OSError:
            if usage is not None:
                os.close(usage)
            raise
        return _Group(cpus, knob, usage)

    def add(self, job: str, pid: int, start_ticks: int | None = None) -> None:
        if job not in self._groups:
            raise unknown_class(job)
        if start_ticks is None:
            start_ticks = proc.start_ticks(pid, self._trees[0].hierarchy.root)
        try:
            for tree in self._trees:
                tree.move_in(job, pid, start_ticks)
        except OSError as error:
            raise CoschedError(f"class {job}: {_move_error(pid, error)}") from None
        if start_ticks is not None:
            self._groups[job].starts[pid] = start_ticks
            if job in self._percents:
                self._write_shares()  # an unscheduled class weighs by its members

    def remove(self, job: str, pid: int) -> None:
        group = self._groups.get(job)
        start_ticks = group.starts.pop(pid, None) if group is not None else None
        for tree in self._trees:
            tree.give_back(job, pid)
        if job in self._frozen and start_ticks is not None:
            freezer.let_go(self._trees[0].path(job), pid, start_ticks)

    def destroy(self, job: str) -> None:
        if job in self._frozen:
            self.thaw(job)
        self._forget(check_key(job))
        for tree in self._trees:
            tree.empty(job)
        self._leftovers.add(job)
        self._remove_leftovers()
        if self._groups:
            self._weigh_top()
        else:
            self._top_weight = None  # another process may remove the empty top

    def _forget(self, job: str) -> None:
        group = self._groups.pop(job, None)
        if group is not None:
            group.close()
        self._widths.pop(job, None)
        self._percents.pop(job, None)
        self._written.pop(job, None)

    def _remove_leftovers(self) -> None:
        """Removes groups without members; one with processes that are dying waits."""
        failed: CoschedError | None = None
        for job in sorted(self._leftovers):
            try:
                removed = [tree.remove(job) for tree in self._trees]
            except OSError as error:
                failed = CoschedError(f"class {job}: cannot be removed: {why(error)}")
                continue
            if all(removed):
                self._leftovers.discard(job)
        if failed is not None:
            raise failed

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
        if self._restored:
            self._restored = False
            self._weigh_top()
        for job in percents:
            if job not in self._groups:
                raise unknown_class(job)
        self._percents.update(percents)
        return self._write_shares()

    def _write_shares(self) -> frozenset[int]:
        """Of all classes: one whose width is new changes the scale of all weights."""
        groups, written = self._groups, self._written
        wanted = self._wanted()
        text = self.quota_text if self._strict else str
        touched: frozenset[int] = frozenset()
        failed: CoschedError | None = None
        for job, value in in_order(wanted, written):
            try:
                os.pwrite(groups[job].knob, text(value).encode(), 0)
            except OSError as error:
                failed = failed or self._write_error(job, error)
                continue  # the others are not to stay at shares that are not theirs
            written[job] = value
            touched |= groups[job].cpus
        if failed is not None:
            raise ShareRefused(str(failed), touched)
        return touched

    def _wanted(self) -> dict[str, int]:
        """The weight or the quota that is due to each class that has a share."""
        widths = {
            job: width(percent, self._widths[job], len(self._groups[job].starts))
            for job, percent in self._percents.items()
        }
        if self._strict:
            return quotas(self._percents, widths)
        widest = max(self._widths.values(), default=1)
        return weights(self._percents, widths, self.scale, widest)

    def _write_error(self, job: str, error: OSError) -> CoschedError:
        path = self._trees[0].path(job)
        if error.errno == errno.ENODEV:
            return CoschedError(f"class {job}: someone removed {path}; end the job")
        return CoschedError(f"class {job}: {path} refuses its share: {error.strerror}")

    def _normalise(self, job: str, weight: int) -> None:
        """Default weight times CPUs, no quota. OSError as it comes."""
        directory = self._trees[0].path(job)
        write(directory / self.weight_file, str(weight))
        unlimited = self.quota_text(UNLIMITED_US)
        if self._strict:
            write(directory / self.quota_file, unlimited)
        else:
            # A kernel without bandwidth control has no such file and no quotas to undo.
            with contextlib.suppress(FileNotFoundError):
                write(directory / self.quota_file, unlimited)
        if job in self._groups:
            self._written[job] = UNLIMITED_US if self._strict else weight

    def _weigh_top(self) -> None:
        cpus = frozenset[int]().union(*(group.cpus for group in self._groups.values()))
        self._set_top_weight(self.scale.one_cpu * max(1, len(cpus)))

    def _set_top_weight(self, weight: int) -> None:
        weight = min(weight, self.scale.high)
        if weight == self._top_weight:
            return
        top = self._trees[0].top
        try:
            write(top / self.weight_file, str(weight))
        except OSError as error:
            raise CoschedError(f"{top}: cannot be weighed: {why(error)}") from None
        self._top_weight = weight

    # -- accounts -----------------------------------------------------------------------

    def cpu_ns(self, job: str) -> int | None:
        group = self._groups.get(job)
        if group is None or group.usage is None:
            return None
        try:
            return self.usage_ns(os.pread(group.usage, 4096, 0))
        except OSError:
            return None

    def pulse(self) -> None:  # noqa: B027
        """Nothing to do: the kernel lets each class run for its share."""

    # -- the way back -------------------------------------------------------------------

    def restore(self, pids: Mapping[str, Mapping[int, int]]) -> None:
        jobs = self._trees[0].jobs()
        if not jobs:
            return
        widths = {job: self._widths.get(job) or self._measured_width(job) for job in jobs}
        normal = normal_weights(widths, self.scale)
        failed: CoschedError | None = None
        for job, weight in normal.items():
            try:
                self._normalise(job, weight)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENODEV):
                    failed = failed or self._write_error(job, error)
        self._top_weight = None
        # Gone since we looked means that nothing is left that needs a weight.
        with contextlib.suppress(CoschedError):
            self._set_top_weight(sum(normal.values()))
        self._percents = {}
        self._restored = True
        if failed is not None:
            raise failed

    def _measured_width(self, job: str) -> int:
        """The CPUs that the members may use, for a class that another process made."""
        tree = self._trees[0]
        cpus: set[int] = set()
        for pid in members(tree.path(job)):
            cpus |= proc.cpu_affinity(pid, tree.hierarchy.root)
        return max(1, len(cpus))

    def close(self) -> None:
        # One that cannot be removed keeps no other from its removal.
        with contextlib.ExitStack() as steps:
            steps.callback(self._remove_last)
            for job in {
                *self._groups,
                *(job for tree in self._trees for job in tree.jobs()),
            }:
                steps.callback(self.destroy, job)

    def _remove_last(self) -> None:
        """What is still there when every class has been destroyed."""
        deadline = time.monotonic() + _CLOSE_PATIENCE_S
        while self._leftovers and time.monotonic() < deadline:
            time.sleep(_CLOSE_INTERVAL_S)
            self._remove_leftovers()
        if self._leftovers:
            path = self._trees[0].path(min(self._leftovers))
            raise CoschedError(
                f"{path}: still in use; end what runs there, then remove the directory"
            )
        self.tidy()

    def tidy(self) -> None:
        """Removes what is above the classes if there are none, of whatever process."""
        for tree in self._trees:
            tree.tidy()
        self._top_weight = None


def _move_error(pid: int, error: OSError) -> str:
    if error.errno in (errno.EACCES, errno.EPERM):
        return (
            f"process {pid} may not be moved here ({error.strerror}); start it inside "
            "the part of the cgroup tree that was delegated to you"
        )
    if error.errno == errno.EINVAL:
        return f"process {pid} has real-time priority, which its class may not have"
    return f"process {pid} cannot be moved here: {why(error)}"
