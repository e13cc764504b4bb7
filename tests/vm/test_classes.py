"""The class scheduler over cgroup v2, where the kernel has nothing else."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cosched.core.config.words import MODES
from cosched.linux.classes import ClassScheduler
from cosched.linux.probe import attach, probe

from .spinners import check_shares, spinner

pytestmark = pytest.mark.vm

TAG = "vmtest"
ROOT = Path("/sys/fs/cgroup")
ONE_CPU = frozenset({0})
USER = 1000


@pytest.fixture
def pids() -> Iterator[tuple[int, int]]:
    """Two processes that want the same CPU, in the groups of this one."""
    with spinner() as one, spinner() as other:
        yield one, other


def _classes_of(pids: tuple[int, int], mode: str) -> ClassScheduler:
    classes = probe(TAG, mode=mode).scheduler
    for job, pid in zip(("a", "b"), pids, strict=True):
        classes.create(job, ONE_CPU)
        classes.add(job, pid)
    return classes


def _group(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip()


@pytest.mark.parametrize("mode", MODES)
def test_probe_chooses_cgroup2_and_leaves_nothing(mode: str) -> None:
    found = probe(TAG, mode=mode)
    assert found.scheduler.name == "cgroup2"
    assert found.scheduler.mode == mode
    assert not list(ROOT.glob("cosched-*"))


@pytest.mark.parametrize("mode", MODES)
def test_set_shares_moves_the_cpu(pids: tuple[int, int], mode: str) -> None:
    classes = _classes_of(pids, mode)
    try:
        classes.set_shares({"a": 99, "b": 1})
        check_shares(pids, lambda a, b: a > 5 * b)
        classes.set_shares({"a": 1, "b": 99})
        check_shares(pids, lambda a, b: b > 5 * a)
    finally:
        classes.close()


def test_strict_mode_leaves_idle_time_unused(
    pids: tuple[int, int],
) -> None:
    def is_lost(a: float, _: float) -> bool:
        return 0.1 < a < 0.4

    def is_used(a: float, _: float) -> bool:
        return a > 0.5

    for mode, right in (("strict", is_lost), ("proportional", is_used)):
        classes = probe(TAG, mode=mode).scheduler
        try:
            classes.create("a", ONE_CPU)
            classes.add("a", pids[0])
            os.sched_setaffinity(pids[1], {1})  # out of the way
            classes.set_shares({"a": 25})
            check_shares(pids, right)
        finally:
            classes.close()


@pytest.mark.parametrize("mode", MODES)
def test_other_process_restores_shares(pids: tuple[int, int], mode: str) -> None:
    classes = _classes_of(pids, mode)
    try:
        classes.set_shares({"a": 99, "b": 1})
        attach(TAG, "cgroup2", mode).restore({})
        check_shares(pids, lambda a, b: a < 4 * b and b < 4 * a)
    finally:
        classes.close()


@pytest.mark.parametrize("mode", MODES)
def test_new_scheduler_takes_over_classes(pids: tuple[int, int], mode: str) -> None:
    home = _group(pids[0])
    _classes_of(pids, mode).set_shares({"a": 99, "b": 1})
    successor = probe(TAG, mode=mode).scheduler
    try:
        successor.create("a", ONE_CPU)
        successor.create("b", ONE_CPU)
        assert _group(pids[0]) == f"0::/cosched-{TAG}/a"
        successor.set_shares({"a": 1, "b": 99})
        check_shares(pids, lambda a, b: b > 5 * a)
    finally:
        successor.close()
    assert _group(pids[0]) == home
    assert not list(ROOT.glob("cosched-*"))


def _as_user(group: Path, check: Callable[[], None]) -> None:
    """Runs ``check`` as an ordinary user in a process of this group."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            (group / "cgroup.procs").write_text(str(os.getpid()))
            os.setgroups([])
            os.setgid(USER)
            os.setuid(USER)
            check()
            status = 0
        except BaseException:  # noqa: BLE001 - of any kind, pytest's too
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def group() -> Iterator[Path]:
    """Yields a group for an ordinary user, which still belongs to root."""
    (ROOT / "cgroup.subtree_control").write_text("+cpu")
    group = ROOT / "user"
    group.mkdir()
    yield group
    for below in group.glob("cosched*"):
        below.rmdir()
    group.rmdir()


def test_user_with_delegated_group_gets_cgroup2(group: Path) -> None:
    for path in (group, group / "cgroup.procs", group / "cgroup.subtree_control"):
        os.chown(path, USER, USER)

    def check() -> None:
        found = probe(TAG)
        assert found.scheduler.name == "cgroup2", found.tried
        with spinner() as one, spinner() as other:
            classes = _classes_of((one, other), "proportional")
            classes.set_shares({"a": 99, "b": 1})
            check_shares((one, other), lambda a, b: a > 5 * b)
            classes.close()

    _as_user(group, check)


def test_user_without_delegated_group_gets_duty_cycle(group: Path) -> None:
    def check() -> None:
        found = probe(TAG)
        assert found.scheduler.name == "dutycycle", found.tried

    _as_user(group, check)
