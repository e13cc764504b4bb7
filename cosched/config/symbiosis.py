"""Declares ``[symbiosis]`` of domain.toml: how jobs share nodes, half and half."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cosched.config.restarts import MEMBERS
from cosched.core.cluster.queue.halves.placement import (
    ALL,
    LEARNED,
    OF_DOMAINS,
    USUAL_PARTS,
)
from cosched.core.config.kinds import AUTO, SWITCH, Kind, decimal, one_of, or_word, whole
from cosched.core.config.mistakes import Mistake
from cosched.core.config.schema import SLOWED
from cosched.core.config.tables import differences, key
from cosched.core.symbiosis.labels import WRONG_RUNS
from cosched.core.symbiosis.watch import WatchSettings

#: Whole nodes.
UNDIVIDED = 1
#: The most parts of a node.
PARTS_MOST = 2

#: A part of the nodes of a domain; None: the usual one of the placement.
PART: Kind[float | None] = or_word(
    AUTO, decimal("a number above 0 and up to 1", lambda value: 0.0 < value <= ALL), None
)


@dataclass(frozen=True, slots=True)
class SymbiosisSettings:
    """[symbiosis]: how jobs share nodes, half and half (Weinberg and Snavely, 2006)."""

    parts: int = key(
        whole(UNDIVIDED, PARTS_MOST),
        UNDIVIDED,
        "Parts of a node; 2: jobs may have halves.",
        restart=MEMBERS,
    )
    placement: str = key(
        one_of(*OF_DOMAINS, LEARNED), "anyhow", "Which halves a job that shares gets."
    )
    share_unlabelled: bool = key(
        SWITCH, False, "Whether jobs without a label may have halves, too."
    )
    share_up_to: float | None = key(
        PART,
        None,
        "The largest jobs that may have halves, as a part of the nodes; "
        "auto: by placement.",
        live=True,
    )
    wrong_runs: int = key(
        whole(0),
        WRONG_RUNS,
        "A label has no effect after so many wrong runs; 0: each label has one.",
        live=True,
    )
    slowed_most: float = key(
        SLOWED,
        WatchSettings().limit,
        "Jobs that slow each other more are not placed side by side again.",
        live=True,
    )

    def without_effect(self) -> Iterator[Mistake]:
        """Yields the settings of halves where nodes have none."""
        if not self.divides:
            for name in differences(SymbiosisSettings(), self):
                yield Mistake(name, f"has no effect without parts = {PARTS_MOST}")

    @property
    def largest_part(self) -> float:
        """The largest jobs that may have halves, as a part of the nodes."""
        own = self.share_up_to
        return USUAL_PARTS[self.placement] if own is None else own

    @property
    def divides(self) -> bool:
        """Whether the nodes have halves."""
        return self.parts > UNDIVIDED
