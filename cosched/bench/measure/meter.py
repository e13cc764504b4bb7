"""Reads what load.py reckons with: busy CPUs, and the CPU time that is cosched's own."""

from __future__ import annotations

import time
from collections.abc import Collection

from cosched.bench.measure.load import LoadSample
from cosched.linux import proc

_NS = 1e9


class LoadMeter:
    """Samples some CPUs of this machine.

    overhead_pids: daemons whose CPU time is no outside load; the bench's own never is.
    """

    def __init__(self, cpus: Collection[int], overhead_pids: Collection[int]) -> None:
        self.cpus = frozenset(cpus)
        self._pids = frozenset(overhead_pids)

    def sample(self) -> LoadSample:
        busy_ns, stolen_ns = proc.cpu_busy_ns(), proc.cpu_stolen_ns()
        daemons_ns = sum(proc.process_cpu_ns(pid) or 0 for pid in self._pids)
        return LoadSample(
            at_s=time.monotonic(),
            busy_s=sum(busy_ns.get(cpu, 0) + stolen_ns.get(cpu, 0) for cpu in self.cpus)
            / _NS,
            overhead_s=time.process_time() + daemons_ns / _NS,
        )
