"""Gives the classes in place their shares, in groups that an engine made.

``levels`` decides which groups get which weight and which jobs a quota bounds. This module
takes the loans, writes the values, and gives the groups back. No process is moved, so the
engine's limits and accounts stay.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.cgroups.cgroupfs import GONE, Hierarchy, why
from cosched.linux.cgroups.controls import Controls
from cosched.linux.cgroups.inplace.job_groups import Group
from cosched.linux.cgroups.inplace.levels import (
    Part,
    Plan,
    level_weights,
    make_plan,
    quota_us,
)
from cosched.linux.cgroups.inplace.loans import Loan, Loans
from cosched.linux.cgroups.knobs import Knobs, Setting
from cosched.linux.cgroups.shares import PERIOD_US, UNLIMITED_US
from cosched.linux.classes import ShareRefused

log = logging.getLogger(__name__)

_NO_PLAN = Plan((), {})


class BorrowedGroups:
    """The classes in place of one node."""

    def __init__(
        self, hierarchy: Hierarchy, controls: Controls, tag: str, *, strict: bool
    ) -> None:
        self._hierarchy = hierarchy
        self._controls = controls
        self._strict = strict
        self._loans = Loans(hierarchy.mount_point, controls, tag)
        self._taken: dict[Group, Loan] = {}
        self._knobs = Knobs[tuple[Group, str]]()
        self._parts: dict[Group, Part] = {}
        self._percents: dict[str, int] = {}
        self._others: Mapping[str, str] = {}
        self._plan = _NO_PLAN
        self._weights: dict[Group, int] = {}
        self._needed: set[Group] = set()
        self._refused: set[Group] = set()
        self._clean = False
        self.bounded: dict[str, str] = {}
        """Why a quota bounds each job while it is unscheduled, for display."""

    def directory(self, group: Group) -> Path:
        """Returns the directory of a group."""
        return self._hierarchy.mount_point.joinpath(*group)

    def refusal(self, group: Group) -> str | None:
        """Returns why a group cannot serve as a class; None if it can."""
        directory = self.directory(group)
        own = self._hierarchy.directory(self._hierarchy.group_of("self") or "/")
        if own is not None and directory in (own, *own.parents):
            return f"{directory} also holds cosched's daemons"
        file = directory / self._controls.weight_file
        if file.exists():
            usable = os.access(file, os.W_OK)
            return None if usable else f"{file} may not be written by this user"
        if not file.parent.is_dir():
            return f"{file.parent} was removed"
        above = file.parent.parent / "cgroup.subtree_control"
        return f"{file} does not exist: the cpu controller is not in {above}"

    # -- which groups -----------------------------------------------------------------

    def arrange(self, parts: Mapping[Group, Part], others: Mapping[str, str]) -> None:
        """Takes these groups as classes and gives all other groups back.

        parts: their percent is ignored. others: why jobs that are not in place compete
        with a job, by job."""
        self._return_old_loans()
        self._parts, self._others = dict(parts), others
        self._percents = {
            job: percent
            for job, percent in self._percents.items()
            if any(part.job == job for part in parts.values())
        }
        self._replan()

    def refresh(self) -> None:
        """Looks again at which groups also hold other programs."""
        if self._parts:
            self._replan()

    def _replan(self) -> None:
        classes = {group: part.job for group, part in self._parts.items()}
        candidates = {g for level in make_plan(classes, (), {}).levels for g in level}
        mixed = {g for g in candidates - classes.keys() if self._is_mixed(g)}
        self._plan = make_plan(classes, mixed, self._others)
        wanted = {g for g, job in classes.items() if job in self._plan.bounded}
        if self._strict:
            wanted = set(classes)
        else:
            wanted |= {group for level in self._plan.levels for group in level}
            # Their weights may be too coarse still; the next shares decide.
            rivals = {classes[g] for g in classes if wanted & _outer(g)}
            wanted |= {
                group
                for group in self._taken
                if classes.get(group) in rivals & self.bounded.keys()
            }
        for group in self._taken.keys() - wanted:
            self._give_back(group)
        self._needed = wanted
        self._refused -= self._refused - wanted
        if self._percents:
            with _logged():
                self.set_shares({})

    def _is_mixed(self, group: Group) -> bool:
        """Whether processes run in the group that are in no class group."""
        classes = {self.directory(inside) for inside in self._parts}
        for directory, children, _ in os.walk(self.directory(group)):
            children[:] = [c for c in children if Path(directory, c) not in classes]
            if (proc.read_text(Path(directory, "cgroup.procs")) or "").strip():
                return True
        return False

    def _take_missing(self, groups: Set[Group]) -> None:
        for group in groups - self._taken.keys() - self._refused:
            self._take(group)
            if group not in self._taken:
                self._refused.add(group)  # reported once

    def _take(self, group: Group) -> None:
        directory = self.directory(group)
        try:
            loan = self._loans.take(directory)
            self._knobs.open(
                (group, self._controls.weight_file), directory / self._controls.weight_file
            )
            if loan.quota_us is not None:
                self._knobs.open(
                    (group, self._controls.quota_file),
                    directory / self._controls.quota_file,
                )
        except OSError as error:
            if error.errno not in GONE:  # an ended group is reported when its tasks end
                log.error("%s: its share cannot be set: %s", directory, why(error))
        except CoschedError as error:
            log.error("%s", error)
        else:
            self._taken[group] = loan

    def _give_back(self, group: Group) -> None:
        self._drop(group)
        with _logged():
            self._loans.give_back(self.directory(group))

    def _drop(self, group: Group) -> None:
        self._taken.pop(group, None)
        for file in (self._controls.weight_file, self._controls.quota_file):
            self._knobs.close((group, file))

    def _return_old_loans(self) -> None:
        """Gives back the loans of a dead daemon of this tag, once."""
        if not self._clean:
            self._clean = True
            self.return_all()

    # -- shares -----------------------------------------------------------------------

    def set_shares(self, percents: Mapping[str, int]) -> frozenset[int]:
        """Writes changed shares; returns the CPUs where the kernel should choose again.

        ShareRefused after all other shares are written."""
        if not self._parts:
            return frozenset()
        jobs = {part.job for part in self._parts.values()}
        self._percents |= {job: p for job, p in percents.items() if job in jobs}
        self._take_missing(self._needed)
        self._take_missing(self._heavy_groups())
        changed, errors = self._knobs.write(self._wanted())
        touched = frozenset[int]().union(*(self._cpus(group) for group, _ in changed))
        refused = None
        for (group, file), error in errors.items():
            directory = self.directory(group)
            if error.errno == errno.ENODEV:
                self._lose(group)
            else:
                refused = refused or f"{directory / file} refuses its share: {why(error)}"
        if refused is not None:
            raise ShareRefused(refused, touched)
        return touched

    def _lose(self, group: Group) -> None:
        """Gives up a group that ended while it was a class."""
        if group in self._taken:
            log.warning(
                "%s was removed: its tasks run at the kernel's shares",
                self.directory(group),
            )
            self._drop(group)
            self._refused.add(group)

    def leave_out(self, job: str) -> None:
        """Gives a job its standing values until its next share: it takes no part."""
        if self._percents.pop(job, None) is not None:
            self.set_shares({})

    def _cpus(self, group: Group) -> frozenset[int]:
        inside = (p.cpus for g, p in self._parts.items() if g[: len(group)] == group)
        return frozenset[int]().union(*inside)

    def _heavy_groups(self) -> set[Group]:
        """Returns the class groups that need a quota because the least weight is too heavy.

        It also computes the weights, and why a quota bounds each job."""
        self._weights = {}
        self.bounded = dict(self._plan.bounded)
        parts = self._demands()
        for level in () if self._strict else self._plan.levels:
            known = [group for group in level if group in self._taken]
            if not known:
                continue
            standing = {group: self._taken[group].weight for group in known}
            low = self._controls.scale.low
            weights, heavy = level_weights(known, standing, parts, low)
            self._weights |= weights
            reason = f"its share is below the least {self._controls.weight_file}"
            self.bounded |= {job: self.bounded.get(job, reason) for job in heavy}
        return {group for group, part in parts.items() if part.job in self.bounded}

    def _demands(self) -> dict[Group, Part]:
        return {
            group: part._replace(percent=self._percents.get(part.job))
            for group, part in self._parts.items()
        }

    def _wanted(self) -> dict[tuple[Group, str], Setting]:
        files = self._controls
        weights = {g: loan.weight for g, loan in self._taken.items()} | self._weights
        wanted = {
            (group, files.weight_file): Setting(weight, str(weight))
            for group, weight in weights.items()
        }
        for group, part in self._demands().items():
            loan = self._taken.get(group)
            if loan is not None and loan.quota_us is not None:
                wanted[group, files.quota_file] = self._quota(part, loan)
        return wanted

    def _quota(self, part: Part, loan: Loan) -> Setting:
        """Returns the quota of a class group, never above its standing quota."""
        limit = None
        if self._strict or part.job in self.bounded:
            limit = quota_us(part, PERIOD_US, strict=self._strict)
        standing = loan.quota_us if loan.quota_us is not None else UNLIMITED_US
        if limit is None or limit >= standing:
            return Setting(standing, loan.files[self._controls.quota_file])
        return Setting(limit, self._controls.quota_text(limit, loan.period_us))

    # -- the way back -----------------------------------------------------------------

    def return_all(self) -> None:
        """Gives back every loan of this tag, also those of another process."""
        for directory in list(self._loans.find()):
            with _logged():
                self._loans.give_back(directory)
        for group in list(self._taken):
            self._drop(group)
        self._percents = {}


def _outer(group: Group) -> set[Group]:
    """Returns the group and all groups around it."""
    return {group[:length] for length in range(len(group) + 1)}


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    """Logs an error of the block and ends the block: the other groups go on."""
    try:
        yield
    except CoschedError as error:
        log.error("%s", error)
