"""Measures how much of the nodes' CPUs went to programs other than the workload.

The kernel counts the busy and the stolen time of the nodes' CPUs. Less the CPU time of the
jobs, the daemons and the bench itself, the rest is outside load. Most kernels sample both
sides by their tick, so small values of either sign mean nothing. A run is disturbed if the
rest exceeds ``DISCARD_ABOVE`` of the CPUs' capacity.

Limits. wait4 reports the jobs' CPU time, so it covers this machine only; for jobs on remote
hosts the outside load is unknown. Time stolen by a hypervisor counts as outside load,
because the jobs lost it.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass

from cosched.core.units import NS_PER_S
from cosched.linux import proc

DISCARD_ABOVE = 0.05


@dataclass(frozen=True, slots=True)
class OutsideLoad:
    """One run's balance, in seconds of CPU time."""

    busy_s: float  #: busy and stolen time of the nodes' CPUs
    jobs_s: float  #: used by the jobs
    overhead_s: float  #: used by the daemons and the bench itself
    capacity_s: float  #: the run's time, multiplied by the number of CPUs

    @property
    def outside_s(self) -> float:
        return max(0.0, self.busy_s - self.jobs_s - self.overhead_s)

    @property
    def share(self) -> float:
        """The part of the CPUs' capacity that other programs used, from 0 to 1."""
        return self.outside_s / self.capacity_s if self.capacity_s > 0 else 0.0

    @property
    def disturbed(self) -> bool:
        return self.share > DISCARD_ABOVE


@dataclass(frozen=True, slots=True)
class LoadSample:
    """The kernel's counters at one moment."""

    at_s: float  #: by the monotonic clock
    busy_s: float  #: CPU time of the sampled CPUs, with stolen time
    overhead_s: float  #: CPU time of the daemons and the bench itself


def outside_load(
    before: LoadSample, after: LoadSample, jobs_s: float, cpus: int
) -> OutsideLoad:
    """Returns the balance between two samples of ``cpus`` CPUs."""
    return OutsideLoad(
        busy_s=after.busy_s - before.busy_s,
        jobs_s=jobs_s,
        overhead_s=max(0.0, after.overhead_s - before.overhead_s),
        capacity_s=(after.at_s - before.at_s) * cpus,
    )


class LoadSampler:
    """Reads the load of some CPUs of this machine.

    ``overhead_pids``: daemons whose CPU time is not outside load. The bench's own CPU time
    never is.
    """

    def __init__(self, cpus: Collection[int], overhead_pids: Collection[int]) -> None:
        self.cpus = frozenset(cpus)
        self._pids = frozenset(overhead_pids)

    def sample(self) -> LoadSample:
        busy_ns, stolen_ns = proc.cpu_busy_ns(), proc.cpu_stolen_ns()
        used_ns = sum(busy_ns.get(cpu, 0) + stolen_ns.get(cpu, 0) for cpu in self.cpus)
        daemons_ns = sum(proc.process_cpu_ns(pid) or 0 for pid in self._pids)
        return LoadSample(
            at_s=time.monotonic(),
            busy_s=used_ns / NS_PER_S,
            overhead_s=time.process_time() + daemons_ns / NS_PER_S,
        )
