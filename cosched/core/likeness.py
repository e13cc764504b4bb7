"""Predicts how long a job will be scheduled from the user's earlier runs.

Runs of one program with the same arguments and ranks predict best. Without such runs,
those of the program with the same ranks are taken, and otherwise all runs of the program.
Only the last runs count: recent jobs of the same user predict better than more of them
(Tsafrir, Etsion and Feitelson, "Backfilling Using System-Generated Predictions", 2007).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cosched.core.node.knowledge import LENGTHS_MAX, Expectation


@dataclass(frozen=True, slots=True)
class Likeness:
    """What makes jobs of one user alike. ``program``: the path of the program, and of its
    script if it has one. ``ranks``: None if the user's own launcher sets them."""

    program: str
    args: tuple[str, ...]
    ranks: int | None

    @property
    def kind(self) -> int:
        """A number other than 0 that only equal likenesses have."""
        text = "\0".join((self.program, str(self.ranks), *self.args))
        digest = hashlib.sha256(text.encode(errors="surrogateescape")).digest()
        return int.from_bytes(digest[:8], "little") or 1


@dataclass(frozen=True, slots=True)
class PastRun:
    """A run that succeeded, and how long its job was scheduled."""

    likeness: Likeness
    length_ns: int


#: From the most alike to the least.
_LEVELS: tuple[Callable[[Likeness], object], ...] = (
    lambda like: like,
    lambda like: (like.program, like.ranks),
    lambda like: like.program,
)


def expect(likeness: Likeness, runs: Iterable[PastRun]) -> Expectation:
    """Returns the lengths of the last runs that are most alike; ``runs`` are in the order
    of their ends."""
    past = list(runs)
    for level in _LEVELS:
        wanted = level(likeness)
        lengths_ns = [run.length_ns for run in past if level(run.likeness) == wanted]
        if lengths_ns:
            return Expectation(likeness.kind, tuple(lengths_ns[-LENGTHS_MAX:]))
    return Expectation(likeness.kind)
