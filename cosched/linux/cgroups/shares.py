"""From percents of a CPU to the numbers that the kernel wants. Pure arithmetic.

Why a weight is multiplied by the job's number of CPUs: the kernel divides the weight
of a group over the CPUs on which the group has runnable tasks. A group of weight 1024
with a busy task on each of 4 CPUs competes with only 256 on each of them. Two jobs of
different width meet on a CPU in the ratio of their percents only if each weight is
percent times width. (A job that leaves some of its CPUs idle weighs more on the others.
So an unscheduled one that may use 64 CPUs and has one task would weigh two thirds of what
is scheduled: its width is the number of its tasks. A scheduled one has its CPUs to itself
but for those, and may fill them with threads.)

Weights have a range, and all of it is used: the widest job would have the greatest weight
for 100%. Only ratios count between classes, so this costs nothing, and gains twice.
Rounding hurts less. And a kernel with CFS (before 6.6) charges each tick at the weight of
that moment and does not forget it when the weight rises: classes that went from weight 1
to the normal 100 waited seconds before they ran again, from 100 to 100 they do not.
Where jobs differ much in width the smallest weights hit the lower bound: on cgroup v2 a
one-CPU job beside one of 256 CPUs has 1 where 0.4 was due.

A quota is percent times width of the period, at least 1 ms (the kernel's minimum): with
a period of 100 ms that is exactly 1% of one CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cosched.core.node.groups import UNSCHEDULED_PERCENT

PERIOD_US = 100_000
QUOTA_MIN_US = 1_000
UNLIMITED_US = 1 << 62
"""Stands for "no quota" and compares greater than every quota."""


@dataclass(frozen=True, slots=True)
class WeightScale:
    """``one_cpu`` is the kernel's default: what an ordinary group has."""

    one_cpu: int
    low: int
    high: int


CPU_SHARES = WeightScale(one_cpu=1024, low=2, high=262_144)
CPU_WEIGHT = WeightScale(one_cpu=100, low=1, high=10_000)


def width(percent: int, cpus: int, members: int) -> int:
    """The CPUs that a class with this share is to be weighed on: all that it may use, or,
    while it is unscheduled, no more than it has members, if these are known (not 0)."""
    if percent > UNSCHEDULED_PERCENT or not members:
        return cpus
    return min(cpus, members)


def weights(
    percents: Mapping[str, int],
    widths: Mapping[str, int],
    scale: WeightScale,
    widest: int,
) -> dict[str, int]:
    """The weight of each job in ``percents``.

    ``widths`` has their ``width``. ``widest`` is the most CPUs that any class there is may
    use, also of those whose percent does not change: all share one factor.
    """
    numerator, denominator = scale.high, 100 * widest
    low, high = scale.low, scale.high
    return {
        job: min(
            high,
            max(
                low,
                (percent * widths[job] * numerator + denominator // 2) // denominator,
            ),
        )
        for job, percent in percents.items()
    }


def normal_weights(widths: Mapping[str, int], scale: WeightScale) -> dict[str, int]:
    """The weights that give each class on each CPU what one ordinary task has."""
    widest = max(widths.values(), default=1)
    most = min(scale.one_cpu * widest, scale.high)
    return {job: max(scale.low, width * most // widest) for job, width in widths.items()}


def quotas(percents: Mapping[str, int], widths: Mapping[str, int]) -> dict[str, int]:
    """Microseconds a period for each job; a full share is no quota at all."""
    return {
        job: UNLIMITED_US
        if percent >= 100
        else max(QUOTA_MIN_US, percent * widths[job] * PERIOD_US // 100)
        for job, percent in percents.items()
    }


def in_order(
    wanted: Mapping[str, int], written: Mapping[str, int | None]
) -> list[tuple[str, int]]:
    """The (job, value) pairs to write: only changes, those that fall first.

    So there is no moment at which two jobs have the scheduled job's share. A value
    never written before (None) counts as one that falls.
    """
    falling: list[tuple[str, int]] = []
    rising: list[tuple[str, int]] = []
    for job, value in wanted.items():
        old = written[job]
        if old is None or value < old:
            falling.append((job, value))
        elif value > old:
            rising.append((job, value))
    return falling + rising
