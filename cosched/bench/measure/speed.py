"""How fast the nodes' CPUs compute while a run lasts.

The CPUs of a virtual machine lend their core to others, and those of any machine change
their clock: the same computation may take half as long again a minute later, without any
CPU time being lost or any other process to be seen. Runs that are made at different times
are then compared by luck. So a probe, always the same small computation, visits each CPU
in turn while a run lasts, and the CPU time it takes goes with the run's result.

The probe has its numbers in registers and the nearest cache: it tells the speed of the
CPUs, not of the memory. It is for CPUs that are cores: on a thread of one it would feel
what the jobs do on the other, and count the jobs' own doing as the machine's.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection
from statistics import fmean
from types import TracebackType

from cosched.core.units import NS_PER_US
from cosched.lab.life import usable_siblings

#: Between two rounds. With some 0.3 ms a visit a CPU loses less than 0.2% of its time.
PAUSE_S = 0.2

_BASE, _EXPONENT, _MODULUS = 3, (1 << 60) - 1, (1 << 1024) - 105


def whole_cores(cpus: frozenset[int]) -> frozenset[int]:
    """The same CPUs if each is a core of its own; none if two share one."""
    shared = any(len(core & cpus) > 1 for core in usable_siblings())
    return frozenset() if shared else cpus


class SpeedProbe:
    """Probes ``cpus`` of this machine from ``with`` to its end, once at least."""

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
        """CPU time of the probe, the mean over CPUs and visits; None if no CPU could be
        visited. To be read after ``with``."""
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
    """Moves this thread to the CPU; the probe's CPU time there, in nanoseconds. None if
    the CPU is not for this process."""
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError:
        return None
    began_ns = time.thread_time_ns()
    pow(_BASE, _EXPONENT, _MODULUS)
    return time.thread_time_ns() - began_ns
