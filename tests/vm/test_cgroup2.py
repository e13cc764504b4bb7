"""The machine's kernel has all of cgroup v2, and its weights and quotas divide a CPU.

Runs inside: ``scripts/vm -- pytest tests/vm/test_cgroup2.py``. Bounds are coarse,
since the machine shares its CPUs with whatever the host does.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.vm

ROOT = Path("/sys/fs/cgroup")
TIME_S = 3.0


@pytest.fixture
def groups() -> Iterator[tuple[Path, Path]]:
    """Two groups on one CPU with one spinning process each."""
    (ROOT / "cgroup.subtree_control").write_text("+cpu +cpuset")
    with contextlib.ExitStack() as stack:
        yield _spinning(stack, "a"), _spinning(stack, "b")


def _spinning(stack: contextlib.ExitStack, name: str) -> Path:
    group = ROOT / f"test-{name}"
    group.mkdir()
    stack.callback(group.rmdir)
    (group / "cpuset.cpus").write_text("0")
    child = os.fork()
    if child == 0:
        (group / "cgroup.procs").write_text(str(os.getpid()))
        while True:
            pass
    stack.callback(os.waitpid, child, 0)
    stack.callback(os.kill, child, 9)
    return group


def _used_us(group: Path) -> int:
    lines = (group / "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)["usage_usec"])


def _used_meanwhile_us(*groups: Path) -> list[int]:
    before = [_used_us(group) for group in groups]
    time.sleep(TIME_S)
    return [_used_us(group) - b for group, b in zip(groups, before, strict=True)]


def test_all_of_cgroup_v2_is_there() -> None:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    assert [kind for _, at, kind, *_ in mounts if at == str(ROOT)] == ["cgroup2"]
    controllers = (ROOT / "cgroup.controllers").read_text().split()
    assert {"cpu", "cpuset", "memory", "io"} <= set(controllers)


def test_weights_divide_a_cpu_nine_to_one(groups: tuple[Path, Path]) -> None:
    heavy, light = groups
    (heavy / "cpu.weight").write_text("900")
    (light / "cpu.weight").write_text("100")
    used = _used_meanwhile_us(heavy, light)
    assert sum(used) > 0.5e6 * TIME_S  # nobody else took it
    assert 0.8 < used[0] / sum(used) < 0.96


def test_a_quota_bounds_its_group_alone(groups: tuple[Path, Path]) -> None:
    free, bounded = groups
    (bounded / "cpu.max").write_text("10000 100000")
    used = _used_meanwhile_us(free, bounded)
    assert used[1] < 0.2e6 * TIME_S
    assert used[0] > 2 * used[1]
