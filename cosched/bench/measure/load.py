"""How much of the nodes' CPUs went to something that is not the workload. Pure.

A run is judged by the time that the kernel counted as busy, or as stolen, on the nodes'
CPUs, less what the jobs, the daemons and the bench itself used. Both sides are sampled by
the kernel's tick on most machines, so small values of either sign mean nothing; a run is
disturbed when the rest is more than ``DISCARD_ABOVE`` of all that the CPUs could give.

Limits. The jobs' own CPU time comes from wait4, so it covers what runs on this machine;
for jobs on remote hosts there is no outside load to tell. Time stolen by a hypervisor
counts as outside load: it was taken from the jobs.
"""

from __future__ import annotations

from dataclasses import dataclass

DISCARD_ABOVE = 0.05


@dataclass(frozen=True, slots=True)
class OutsideLoad:
    """One run's balance, in seconds of CPU time."""

    busy_s: float
    jobs_s: float
    overhead_s: float
    capacity_s: float

    @property
    def outside_s(self) -> float:
        return max(0.0, self.busy_s - self.jobs_s - self.overhead_s)

    @property
    def share(self) -> float:
        """The part of the CPUs' capacity that others used, from 0 to 1."""
        return self.outside_s / self.capacity_s if self.capacity_s > 0 else 0.0

    @property
    def disturbed(self) -> bool:
        return self.share > DISCARD_ABOVE


@dataclass(frozen=True, slots=True)
class LoadSample:
    """What the kernel has counted up to one moment; busy: or stolen by a hypervisor."""

    at_s: float
    busy_s: float
    overhead_s: float


def outside_load(
    before: LoadSample, after: LoadSample, jobs_s: float, cpus: int
) -> OutsideLoad:
    """The balance between two samples of ``cpus`` CPUs."""
    return OutsideLoad(
        busy_s=after.busy_s - before.busy_s,
        jobs_s=jobs_s,
        overhead_s=max(0.0, after.overhead_s - before.overhead_s),
        capacity_s=(after.at_s - before.at_s) * cpus,
    )
