"""One way to run a workload: an arm, and what it changes beyond that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cosched.bench.run.arms import Arm


@dataclass(frozen=True, slots=True)
class Cell:
    """What a run is made with.

    settings: as for ``cosched config set``, on top of those of the whole bench.
    dom: how many jobs run at a time; the others wait, first come, first served. None: all.
    """

    arm: Arm
    settings: Mapping[str, str] = field(default_factory=dict)
    dom: int | None = None

    @property
    def name(self) -> str:
        """Unique among the cells of one workload: ``cosched slice=1s dom=3``."""
        words = [self.arm.value]
        words += [f"{name}={text}" for name, text in sorted(self.settings.items())]
        words += [f"dom={self.dom}"] if self.dom is not None else []
        return " ".join(words)

    @property
    def at_most(self) -> int | None:
        """How many jobs run at a time; None: all."""
        return 1 if self.arm is Arm.BATCH else self.dom
