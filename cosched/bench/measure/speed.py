"""Measures how fast the nodes' CPUs compute during a run.

The speed of a CPU changes with its clock, and in a virtual machine with the load of the
host. The same computation can take half as long again a minute later, although no CPU time
is lost and no other process runs. Runs of different times cannot be compared then. So a
probe visits each CPU in turn during a run: always the same small computation. Its CPU time
is part of the run's result.

The probe fits into registers and the nearest cache, so it measures the CPUs and not the
memory. It needs CPUs that are whole cores. On a hardware thread it would measure the load
that the jobs put on the core's other thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from statistics import fmean
from types import TracebackType

from cosched.core.units import NS_PER_US
from cosched.linux.cpu_surroundings import usable_siblings

#: The pause between two rounds. A visit takes 0.3 ms, so a CPU loses less than 0.2%.
PAUSE_S = 0.2

_BASE, _EXPONENT, _MODULUS = 3, (1 << 60) - 1, (1 << 1024) - 105


def whole_cores(cpus: frozenset[int]) -> frozenset[int]:
    """Returns the CPUs if no two of them share a core; otherwise none."""
    shared = any(len(core & cpus) > 1 for core in usable_siblings())
    return frozenset() if shared else cpus


class SpeedProbe:
    """Probes ``cpus`` of this machine during the ``with`` block, at least once."""

    def __init__(self, cpus: Collection[int]) -> None:
        self._cpus = sorted(cpus)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._visit_all, name="speed", daemon=True)
        self._visits_ns: list[int] = []

    def __enter__(self) -> SpeedProbe:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    @property
    def probe_us(self) -> float | None:
        """The probe's mean CPU time over CPUs and visits; None if no CPU could be visited.

        Read it after the ``with`` block.
        """
        return fmean(self._visits_ns) / NS_PER_US if self._visits_ns else None

    def _visit_all(self) -> None:
        while True:
            for cpu in self._cpus:
                visit_ns = _visit(cpu)
                if visit_ns is not None:
                    self._visits_ns.append(visit_ns)
            if self._over.wait(PAUSE_S):
                return


def _visit(cpu: int) -> int | None:
    """Moves this thread to the CPU and returns the probe's CPU time in nanoseconds.

    None if this process may not use the CPU.
    """
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return None
    began_ns = time.thread_time_ns()
    pow(_BASE, _EXPONENT, _MODULUS)
    return time.thread_time_ns() - began_ns
