"""The arms of a bench: the ways to run one workload that are compared.

``batch``: one job after the other, in the order of submission, each with the nodes to
itself. ``kernel``: every job at its submission, the operating system alone shares the
CPUs among them. ``cosched``: the same, coscheduled. Only the last one's jobs carry the
shim; nothing else differs between the arms.
"""

from __future__ import annotations

from enum import Enum

from cosched.core.errors import CoschedError


class Arm(Enum):
    """One way to run a workload."""

    BATCH = "batch"
    KERNEL = "kernel"
    COSCHED = "cosched"

    @property
    def one_at_a_time(self) -> bool:
        return self is Arm.BATCH

    @property
    def with_shim(self) -> bool:
        return self is Arm.COSCHED


def parse_arms(text: str) -> tuple[Arm, ...]:
    """The arms in a list like ``batch,kernel,cosched``."""
    names = [name.strip() for name in text.split(",")]
    valid = ", ".join(arm.value for arm in Arm)
    for name in names:
        if name not in {arm.value for arm in Arm}:
            raise CoschedError(f"--arms: '{name}' is not an arm; the arms are {valid}")
        if names.count(name) > 1:
            raise CoschedError(f"--arms: '{name}' is given twice; name each arm once")
    return tuple(Arm(name) for name in names)


def interleave(arms: tuple[Arm, ...], repeats: int) -> tuple[tuple[Arm, int], ...]:
    """The order of all runs, as (arm, repeat from 1).

    Each repeat runs every arm once and begins with another one, so that no arm always
    follows the same arm, and a slow change of the machine touches all of them.
    """
    return tuple(
        (arms[(repeat + place) % len(arms)], repeat + 1)
        for repeat in range(repeats)
        for place in range(len(arms))
    )
