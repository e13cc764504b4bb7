"""Engines' groups are as they were after any order of starts, ends, moves and crashes."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cosched.linux.cgroups import placement
from cosched.linux.cgroups.placement import PlacedClasses, place_tasks
from cosched.linux.classes import Way
from cosched.linux.probe import attach
from tests.unit.linux.fake_cgroups import FakeKernel
from tests.unit.linux.test_placement import FakeDuty

CPUS = frozenset({0, 1})
JOBS = st.integers(0, 3)
NUMBERS = st.integers(1, 3)
STEPS = st.integers(0, 1)
USERS = {1: 1, 2: 1, 3: 2}


class EngineAndDaemon(RuleBasedStateMachine):
    """Slurm's groups of version 1, and one daemon after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(placement, "DutyCycle", FakeDuty)
        self.folder = tempfile.TemporaryDirectory()
        self.kernel = FakeKernel(Path(self.folder.name), self.patch)
        self.mount = self.kernel.mount("cpu", "/sys/fs/cgroup/cpu")
        for number in USERS:
            for step in range(2):
                self.kernel.group(self.group(number, step))
        self.pids = itertools.count(200)
        self.tasks: dict[int, str] = {}
        self.classes = self.daemon()

    def group(self, number: int, step: int) -> Path:
        return self.mount / f"slurm/uid_{USERS[number]}/job_{number}/step_{step}"

    def daemon(self) -> PlacedClasses:
        made = place_tasks(attach("n", "cgroup1", root=self.kernel.root), "n")
        assert isinstance(made, PlacedClasses)
        return made

    def engine_groups(self) -> list[Path]:
        top = self.mount / "slurm"
        return [top, *(path for path in top.rglob("*") if path.is_dir())]

    @rule(job=JOBS, number=NUMBERS, step=STEPS)
    def start(self, job: int, number: int, step: int) -> None:
        pid = next(self.pids)
        self.kernel.task(pid, self.group(number, step))
        self.tasks[pid] = f"1.{job}"
        self.classes.create(f"1.{job}", CPUS)
        self.classes.add(f"1.{job}", pid)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        pid = data.draw(st.sampled_from(sorted(self.tasks)))
        job = self.tasks.pop(pid)
        self.kernel.end(pid)
        self.classes.remove(job, pid)
        if job not in self.tasks.values():
            self.classes.destroy(job)

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), number=NUMBERS, step=STEPS)
    def engine_moves(self, data: st.DataObject, number: int, step: int) -> None:
        pid = data.draw(st.sampled_from(sorted(self.tasks)))
        self.kernel.place(pid, self.group(number, step))
        self.classes.inspect()

    @precondition(lambda self: self.tasks)
    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        jobs = sorted(set(self.tasks.values()))
        scheduled = data.draw(st.sampled_from(jobs))
        high = 101 - len(jobs)
        self.classes.set_shares({job: high if job == scheduled else 1 for job in jobs})
        place = self.classes.place(scheduled)
        for group in place.groups:
            # Neither a group of the scheduled job nor one around it weighs less.
            for directory in (Path(group), *Path(group).parents):
                if self.mount / "slurm" in directory.parents:
                    assert (directory / "cpu.shares").read_text().strip() == "1024"

    @rule()
    def crash(self) -> None:
        """The daemon dies, the guardian restores, and the next daemon takes over."""
        self.daemon().restore({})
        self.check_standing()
        self.classes = self.daemon()
        for pid, job in self.tasks.items():
            self.classes.create(job, CPUS)
            self.classes.add(job, pid)

    @invariant()
    def nothing_is_changed_without_competition(self) -> None:
        if len(set(self.tasks.values())) < 2:
            self.check_standing()

    @invariant()
    def no_task_leaves_the_engines_groups(self) -> None:
        for pid in self.tasks:
            text = (self.kernel.root / f"proc/{pid}/cgroup").read_text()
            assert ":/slurm/uid_" in text

    @invariant()
    def jobs_in_one_step_have_no_class_in_place(self) -> None:
        for job in set(self.tasks.values()):
            for group in self.classes.place(job).groups:
                inside = [p for p in self.tasks if self._runs_in(p, Path(group))]
                assert {self.tasks[pid] for pid in inside} == {job}
            assert set(self.classes.place(job).ways) <= {Way.IN_PLACE, Way.DUTY_CYCLE}

    def _runs_in(self, pid: int, group: Path) -> bool:
        at = (
            self.mount
            / (self.kernel.root / f"proc/{pid}/cgroup").read_text().split(":/")[1].strip()
        )
        return at == group or group in at.parents

    def check_standing(self) -> None:
        assert not self.kernel.attributes
        for group in self.engine_groups():
            assert (group / "cpu.shares").read_text().strip() == "1024"
            assert (group / "cpu.cfs_quota_us").read_text().strip() == "-1"

    def teardown(self) -> None:
        self.classes.close()
        self.check_standing()
        self.patch.undo()
        self.folder.cleanup()


TestEngineAndDaemon = EngineAndDaemon.TestCase
TestEngineAndDaemon.settings = settings(max_examples=12, stateful_step_count=16)
