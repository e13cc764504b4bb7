"""Converts percents of a CPU to the numbers of the kernel. Pure arithmetic.

A weight is multiplied by the job's number of CPUs, its width. The kernel divides the weight
of a group over the CPUs on which the group has runnable tasks. A group of weight 1024 with
a busy task on each of 4 CPUs competes with only 256 on each. So two jobs of different width
share a CPU in the ratio of their percents only if each weight is percent times width.

A job that leaves some of its CPUs idle weighs more on the others. An unscheduled job with
one task and 64 CPUs would weigh two thirds of the scheduled job. So the width of an
unscheduled job is at most the number of its tasks. A scheduled job may fill its CPUs with
threads, so its width is all its CPUs.

Weights use the whole range of the kernel: 100% of the widest job is the greatest weight.
Only ratios count between classes. This reduces rounding. It also helps on kernels with CFS
(before 6.6). They charge each tick at the current weight and keep that charge when the
weight rises, so classes that went from weight 1 to 100 waited for seconds. If jobs differ
much in width, the smallest weights reach the lower bound. On cgroup v2 a job of one CPU
beside a job of 256 CPUs has 1 instead of 0.4.

A percent of 0 stands for a thousandth of a CPU: next to nothing, but a class that computes
all the time gets a tick of 4 ms in four seconds. With the least weight it would wait for
minutes after a tick, however much its weight rises then (CFS).

A quota is percent times width of the period, at least 1 ms, the kernel's minimum. With a
period of 100 ms that is exactly 1% of one CPU.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

from cosched.core.named_tuples import NamedTuple
from cosched.core.node.groups import is_waiting_share
from cosched.core.node.periods import QUOTA_PERIOD_NS
from cosched.core.units import NS_PER_US

Key = TypeVar("Key", bound=Hashable)

#: Of a CPU, in percent, for a class with 0%.
IDLE_PERCENT = 0.1
PERIOD_US = QUOTA_PERIOD_NS // NS_PER_US
QUOTA_MIN_US = 1_000
UNLIMITED_US = 1 << 62
"""Stands for "no quota" and compares greater than every quota."""


class WeightScale(NamedTuple):
    """The weights of one cgroup version; they have no unit."""

    one_cpu: int  #: the kernel's default for a group
    low: int  #: the least weight that the kernel accepts
    high: int  #: the greatest weight that the kernel accepts


CPU_SHARES = WeightScale(one_cpu=1024, low=2, high=262_144)
CPU_WEIGHT = WeightScale(one_cpu=100, low=1, high=10_000)


def width(percent: int, cpus: int, members: int) -> int:
    """Returns the number of CPUs in the weight of a class with this share.

    All its CPUs, or, while it is unscheduled, at most its members if known (not 0)."""
    if not is_waiting_share(percent) or not members:
        return cpus
    return min(cpus, members)


def weights(
    percents: Mapping[str, int],
    widths: Mapping[str, int],
    scale: WeightScale,
    widest: int,
) -> dict[str, int]:
    """Returns the weight of each job in ``percents``.

    ``widths``: their ``width``. ``widest``: the most CPUs of any class, also of classes
    whose percent does not change, because all weights share one factor.
    """
    numerator, denominator = scale.high, 100 * widest
    low, high = scale.low, scale.high
    return {
        job: min(
            high,
            max(
                low,
                round((percent or IDLE_PERCENT) * widths[job] * numerator / denominator),
            ),
        )
        for job, percent in percents.items()
    }


def normal_weights(widths: Mapping[str, int], scale: WeightScale) -> dict[str, int]:
    """Returns the weights that give each class on each CPU the weight of one task."""
    widest = max(widths.values(), default=1)
    most = min(scale.one_cpu * widest, scale.high)
    return {job: max(scale.low, width * most // widest) for job, width in widths.items()}


def quotas(percents: Mapping[str, int], widths: Mapping[str, int]) -> dict[str, int]:
    """Returns the microseconds per period of each job; a full share has no quota."""
    return {
        job: UNLIMITED_US
        if percent >= 100
        else max(QUOTA_MIN_US, percent * widths[job] * PERIOD_US // 100)
        for job, percent in percents.items()
    }


def in_order(
    wanted: Mapping[Key, int], written: Mapping[Key, int | None]
) -> list[tuple[Key, int]]:
    """Returns the (key, value) pairs to write: only changes, falling values first.

    So two jobs never have the scheduled job's share at the same time. A value that was
    never written (None) counts as falling.
    """
    falling: list[tuple[Key, int]] = []
    rising: list[tuple[Key, int]] = []
    for key, value in wanted.items():
        old = written[key]
        if old is None or value < old:
            falling.append((key, value))
        elif value > old:
            rising.append((key, value))
    return falling + rising
