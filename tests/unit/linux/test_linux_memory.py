"""Reads memory from fake /proc trees and from this process."""

from __future__ import annotations

import mmap
import os

import pytest

from cosched.linux.memory import (
    MachineMemory,
    held_bytes,
    machine_memory,
    pressure_percent,
)

MEMINFO = (
    "MemTotal:        8123456 kB\nMemFree:  1 kB\nMemAvailable:    4000000 kB\n"
    "SwapTotal:       2000 kB\n"
)
PSI = (
    "some avg10=12.34 avg60=1.00 avg300=0.00 total=5\n"
    "full avg10=99.00 avg60=0 avg300=0 total=3\n"
)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(MEMINFO)
    (tmp_path / "proc/pressure/memory").write_text(PSI)
    for pid, anonymous, shared in ((1, 100, 50), (2, 200, 70)):
        (tmp_path / f"proc/{pid}").mkdir()
        (tmp_path / f"proc/{pid}/status").write_text(
            f"Name:\tapp\nVmRSS:\t 999 kB\nRssAnon:\t {anonymous} kB\n"
            f"RssFile:\t 5000 kB\nRssShmem:\t {shared} kB\n"
        )
    return tmp_path


def test_machine_memory_is_read_from_meminfo(root):
    assert machine_memory(root) == MachineMemory(
        8123456 * 1024, 4000000 * 1024, 2000 * 1024
    )
    assert pressure_percent(root) == 12.34


def test_missing_pressure_and_meminfo_give_none_and_zero(tmp_path):
    assert pressure_percent(tmp_path) is None
    assert machine_memory(tmp_path) == MachineMemory(0, 0, 0)


def test_held_bytes_count_shared_pages_once(root):
    assert held_bytes([1, 2, 3], root) == (100 + 200 + 70) * 1024
    assert held_bytes([], root) == 0


def test_held_bytes_grow_with_touched_memory():
    size = 64 << 20
    before = held_bytes([os.getpid()])
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for offset in range(0, size, mmap.PAGESIZE):
            block[offset] = 1
        assert held_bytes([os.getpid()]) - before > size * 0.9


def test_this_machine_has_memory():
    memory = machine_memory()
    assert memory.total_bytes > memory.available_bytes > 0
