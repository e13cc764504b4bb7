"""The machine's kernel has all of cgroup v2, and its weights and quotas divide a CPU.

Runs inside: ``scripts/vm -- pytest tests/vm/test_cgroup2.py``. Bounds are coarse,
since the machine shares its CPUs with whatever the host does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from .spinners import check_shares, spinner

pytestmark = pytest.mark.vm

ROOT = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def _group(name: str, pid: int) -> Iterator[Path]:
    group = ROOT / name
    group.mkdir()
    (group / "cgroup.procs").write_text(str(pid))
    try:
        yield group
    finally:
        (ROOT / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@pytest.fixture
def pids() -> Iterator[tuple[int, int]]:
    """Two processes that want the same CPU."""
    with spinner() as one, spinner() as other:
        yield one, other


@pytest.fixture
def groups(pids: tuple[int, int]) -> Iterator[tuple[Path, Path]]:
    """A group for each of the two."""
    (ROOT / "cgroup.subtree_control").write_text("+cpu")
    with _group("test-a", pids[0]) as one, _group("test-b", pids[1]) as other:
        yield one, other


def test_cgroup2_has_all_controllers() -> None:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    assert [kind for _, at, kind, *_ in mounts if at == str(ROOT)] == ["cgroup2"]
    controllers = (ROOT / "cgroup.controllers").read_text().split()
    assert {"cpu", "cpuset", "memory", "io"} <= set(controllers)


def test_cgroup2_weights_divide_cpu_nine_to_one(
    pids: tuple[int, int], groups: tuple[Path, Path]
) -> None:
    for group, weight in zip(groups, (900, 100), strict=True):
        (group / "cpu.weight").write_text(str(weight))
    check_shares(pids, lambda heavy, light: 4 * light < heavy < 20 * light)


def test_cgroup2_quota_bounds_only_its_group(
    pids: tuple[int, int], groups: tuple[Path, Path]
) -> None:
    (groups[1] / "cpu.max").write_text("10000 100000")
    check_shares(pids, lambda free, bounded: bounded < 0.2 and free > 2 * bounded)
