"""The arms of a bench: the ways to run one workload that are compared.

Nothing differs between the arms but what this table says.

    batch         one job after the other, in the order of submission, each with all
                  nodes to itself
    kernel        every job at its submission; the operating system alone shares the CPUs
    yield         the same, but ranks that wait offer their CPU to others
    block         the same, but ranks that wait sleep after some microseconds
    gang          every job at its submission; one driver switches all nodes at
                  once (gang.py)
    slurm-gang    time-sliced by a Slurm on the lab's nodes (scripts/slurm-lab)
    messages      coscheduled, with timers that know nothing of each other: messages alone
                  bring the nodes together
    strict        coscheduled, by daemons in strict mode: time a job leaves unused is lost
    proportional  coscheduled, by daemons in proportional mode
    cosched       coscheduled, by the daemons as they are
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TypeVar

from cosched.core.errors import CoschedError

T = TypeVar("T")


class Arm(Enum):
    """One way to run a workload."""

    BATCH = "batch"
    KERNEL = "kernel"
    YIELD = "yield"
    BLOCK = "block"
    GANG = "gang"
    SLURM_GANG = "slurm-gang"
    MESSAGES = "messages"
    STRICT = "strict"
    PROPORTIONAL = "proportional"
    COSCHED = "cosched"

    @property
    def coscheduled(self) -> bool:
        """Whether its jobs' tasks register with the daemons."""
        return self in (
            Arm.GANG,
            Arm.MESSAGES,
            Arm.STRICT,
            Arm.PROPORTIONAL,
            Arm.COSCHED,
        )

    @property
    def mode(self) -> str | None:
        """The mode that the daemons have to be in; None: any."""
        return self.value if self in (Arm.STRICT, Arm.PROPORTIONAL) else None

    @property
    def options(self) -> tuple[str, ...]:
        """What cosched-run is told."""
        if self in (Arm.YIELD, Arm.BLOCK):
            return ("--waits-only", "--wait", self.value)
        if self is Arm.GANG:
            return ("--carrier", "none")
        return () if self.coscheduled else ("--no-shim",)

    @property
    def settings(self) -> Mapping[str, str]:
        """What the nodes are set to for its runs."""
        if self is Arm.GANG:  # the daemons' own timers keep out of it
            return {"align": "off", "slice": "3600s"}
        return {"align": "off"} if self is Arm.MESSAGES else {}


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


def interleave(ways: Sequence[T], repeats: int) -> tuple[tuple[T, int], ...]:
    """The order of all runs, as (way, repeat from 1); a way is an arm, or more than that.

    Each repeat runs every way once and begins with another one, so that none always
    follows the same, and a slow change of the machine touches all of them.
    """
    return tuple(
        (ways[(repeat + place) % len(ways)], repeat + 1)
        for repeat in range(repeats)
        for place in range(len(ways))
    )
