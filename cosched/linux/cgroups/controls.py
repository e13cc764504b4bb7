"""Names the control files of each cgroup version, and reads and writes their formats."""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from pathlib import Path

from cosched.linux import proc
from cosched.linux.cgroups.shares import (
    CPU_SHARES,
    CPU_WEIGHT,
    PERIOD_US,
    QUOTA_MIN_US,
    UNLIMITED_US,
    WeightScale,
)


class Controls(ABC):
    """The control files of one version.

    A quota is in microseconds per PERIOD_US; UNLIMITED_US means no quota."""

    version: int
    scale: WeightScale
    weight_file: str
    quota_file: str
    usage_file: str

    @abstractmethod
    def quota_text(self, quota_us: int, period_us: int = PERIOD_US) -> str:
        """Returns the text for ``quota_file`` of a group with this period."""

    @abstractmethod
    def usage_ns(self, text: bytes) -> int:
        """Returns the CPU time from the text of ``usage_file``."""

    @abstractmethod
    def parse_quota(self, text: str, period_us: int) -> int:
        """Returns the quota in the text of ``quota_file``."""

    @abstractmethod
    def period_us(self, directory: Path) -> int:
        """Returns the period of a group's quota."""


class Version1(Controls):
    """cpu.shares, and cpu.cfs_quota_us with a period in a file of its own."""

    version = 1
    scale = CPU_SHARES
    weight_file = "cpu.shares"
    quota_file = "cpu.cfs_quota_us"
    usage_file = "cpuacct.usage"

    def quota_text(self, quota_us: int, period_us: int = PERIOD_US) -> str:
        if quota_us >= UNLIMITED_US:
            return "-1"
        return str(max(QUOTA_MIN_US, quota_us * period_us // PERIOD_US))

    def usage_ns(self, text: bytes) -> int:
        return proc.integer(text)

    def parse_quota(self, text: str, period_us: int) -> int:
        quota_us = proc.integer(text)
        return UNLIMITED_US if quota_us < 0 else quota_us * PERIOD_US // period_us

    def period_us(self, directory: Path) -> int:
        text = proc.read_text(directory / "cpu.cfs_period_us")
        return proc.integer(text) if text else PERIOD_US


class Version2(Controls):
    """cpu.weight, and cpu.max with quota and period in one line."""

    version = 2
    scale = CPU_WEIGHT
    weight_file = "cpu.weight"
    quota_file = "cpu.max"
    usage_file = "cpu.stat"

    def quota_text(self, quota_us: int, period_us: int = PERIOD_US) -> str:
        return "max" if quota_us >= UNLIMITED_US else f"{quota_us} {PERIOD_US}"

    def usage_ns(self, text: bytes) -> int:
        for line in text.splitlines():
            key, _, value = line.partition(b" ")
            if key == b"usage_usec":
                return proc.integer(value) * 1000
        raise OSError(errno.ENODATA, "no usage_usec")

    def parse_quota(self, text: str, period_us: int) -> int:
        quota, _, period = text.partition(" ")
        if quota == "max":
            return UNLIMITED_US
        own_us = proc.integer(period) if period else period_us
        return proc.integer(quota) * PERIOD_US // own_us

    def period_us(self, directory: Path) -> int:
        # The period of a line is that of its quota, so it can always be PERIOD_US.
        return PERIOD_US
