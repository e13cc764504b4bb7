"""Measures whether kernels slow each other on this machine's own memory and disk.

Each kernel runs alone on one CPU, and then on all CPUs at once. If one of the memory
kernels keeps nearly its speed, the machine has too few CPUs to fill its memory: then the
figures of Weinberg and Snavely can only be emulated (``emulated``).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.kernels.build import Built
from benchmarks.kernels.kernel_processes import KernelSetup
from benchmarks.kernels.matrix import rate_of

#: The kernels that need what processors share, and the name of that.
SHARED: Mapping[str, str] = {"stream": "memory", "gups": "memory", "io": "disk"}
#: A kernel that keeps more of its speed is not slowed.
KEPT_MOST = 0.90


def kept_speeds(
    built: Built, setup: KernelSetup, seconds: float, repeat: int
) -> dict[str, float]:
    """Returns which part of its speed alone each kernel keeps on all CPUs at once; the
    median of several rounds. built: has these kernels."""
    one = replace(setup, cpus=setup.cpus[:1])
    found: dict[str, list[float]] = {kernel: [] for kernel in SHARED}
    for _ in range(repeat):
        for kernel, parts in found.items():
            alone = rate_of(kernel, built, one, seconds)
            together = rate_of(kernel, built, setup, seconds) / len(setup.cpus)
            parts.append(together / alone)
    return {kernel: statistics.median(parts) for kernel, parts in found.items()}


def is_measurable(kept: Mapping[str, float]) -> bool:
    """Returns whether both the memory and the disk of this machine can be filled."""
    filled = {SHARED[kernel] for kernel, part in kept.items() if part <= KEPT_MOST}
    return filled == set(SHARED.values())


def described(kept: Mapping[str, float], cpus: Sequence[int]) -> list[str]:
    """Returns what was found, in lines."""
    lines = [
        f"{kernel}: beside itself on {len(cpus)} CPUs it keeps {part:.0%} of its speed"
        + ("" if part <= KEPT_MOST else f": they do not fill the {SHARED[kernel]}")
        for kernel, part in kept.items()
    ]
    if is_measurable(kept):
        return [*lines, "contention can be measured on this machine"]
    return [*lines, "contention cannot be measured on this machine: emulate a node"]
