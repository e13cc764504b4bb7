"""Declares ``[symbiosis]`` of domain.toml: how jobs share nodes, half and half."""

from __future__ import annotations

from dataclasses import dataclass

from cosched.core.cluster.queue.halves.placement import LEARNED, OF_DOMAINS
from cosched.core.config.kinds import SWITCH, one_of, whole
from cosched.core.config.schema import SLOWED
from cosched.core.config.tables import key
from cosched.core.symbiosis.labels import WRONG_RUNS
from cosched.core.symbiosis.watch import WatchSettings

#: Whole nodes.
UNDIVIDED = 1
#: The most parts of a node.
PARTS_MOST = 2


@dataclass(frozen=True, slots=True)
class SymbiosisSettings:
    """[symbiosis]: how jobs share nodes, half and half (Weinberg and Snavely, 2006)."""

    parts: int = key(
        whole(UNDIVIDED, PARTS_MOST), UNDIVIDED, "Parts of a node; 2: jobs may have halves."
    )
    placement: str = key(
        one_of(*OF_DOMAINS, LEARNED), "anyhow", "Which halves a job that shares gets."
    )
    share_unlabelled: bool = key(
        SWITCH, False, "Whether jobs without a label may have halves, too."
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

    @property
    def divides(self) -> bool:
        """Whether the nodes have halves."""
        return self.parts > UNDIVIDED
