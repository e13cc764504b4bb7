"""What was seen of applications beside each other; checks users' labels against it.

Section 3 leaves both to "more advanced scenarios": a system that verifies the category by
historical run information, and a scheduler that experiments with combinations until it has
found the best (``rounds.py``).

Of a pair that was seen, the mean counts; of another one, what users' labels let expect
(``Priors``). Limits: a mean forgets nothing, and all runs of an application count as alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations
from statistics import fmean
from typing import Any

from cosched.core.cluster.symbiosis.matrix import Model, SpeedupMatrix
from cosched.core.cluster.symbiosis.resources import (
    SHARED,
    Expectation,
    Labels,
    Limits,
    Resource,
    expected,
)
from cosched.core.errors import CoschedError


@dataclass(frozen=True, slots=True)
class Priors:
    """Speedups to expect of pairs that were not seen: the paper's means, and no change
    where nothing is known. alone: beside nobody."""

    slow: float = 0.84
    symbiotic: float = 1.15
    unknown: float = 1.0
    alone: float = 1.2

    def of(self, expectation: Expectation) -> float:
        """The speedup."""
        return {
            Expectation.SLOW: self.slow,
            Expectation.SYMBIOTIC: self.symbiotic,
            Expectation.UNKNOWN: self.unknown,
        }[expectation]


@dataclass(slots=True)
class Seen:
    """The mean of so many observations."""

    count: int = 0
    mean: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.mean += (value - self.mean) / self.count


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """What was seen of an application, against its user's label.

    right, wrong: backgrounds beside which it did, or did not do, what was expected (below
    a speedup of 1, or not). said: those resources of the label that nodes share. found:
    those whose users slow it down, more than others do.
    """

    application: str
    said: Limits
    found: Limits
    right: int
    wrong: int

    @property
    def verdict(self) -> str:
        """``confirmed``; ``not seen``: a resource that was said does not show; ``more
        found``: one shows that was not said; ``unknown``: nothing was seen of it."""
        if not self.right + self.wrong and not self.found:
            return "unknown" if self.said else "confirmed"
        if self.found - self.said:
            return "more found"
        return "not seen" if self.said - self.found else "confirmed"

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "application": self.application,
            "said": sorted(resource.value for resource in self.said),
            "found": sorted(resource.value for resource in self.found),
            "right": self.right,
            "wrong": self.wrong,
            "verdict": self.verdict,
        }


@dataclass(slots=True)
class Learner:
    """Observations, by (primary, background); ``None``: nobody on the other halves."""

    labels: Labels
    priors: Priors = field(default_factory=Priors)
    seen: dict[tuple[str, str | None], Seen] = field(default_factory=dict)

    def observe(self, primary: str, background: str | None, speedup: float) -> None:
        """The primary was so fast against nodes of its own."""
        if not speedup > 0.0:
            raise CoschedError(
                f"application '{primary}': a speedup of {speedup:g} was observed: "
                "want more than 0"
            )
        self.seen.setdefault((primary, background), Seen()).add(speedup)

    def estimate(self, primary: str, background: str | None) -> float:
        """The speedup to expect."""
        seen = self.seen.get((primary, background))
        if seen is not None:
            return seen.mean
        if background is None:
            return self.priors.alone
        if primary == background:
            return 1.0
        return self.priors.of(expected(self.labels[primary], self.labels[background]))

    def error(self, matrix: SpeedupMatrix) -> float:
        """How far its estimates are off the truth, the mean over all pairs of speedups."""
        off = [
            abs(self.estimate(*pair) - matrix.speedup(*pair))
            for pair in permutations(matrix.names, 2)
        ]
        return fmean(off) if off else 0.0

    def check(self) -> list[LabelCheck]:
        """Each application's label, in the order of names."""
        return [self._check(name) for name in sorted(self.labels)]

    def _check(self, name: str) -> LabelCheck:
        own = self.labels[name]
        beside = {
            background: seen.mean
            for (primary, background), seen in self.seen.items()
            if primary == name and background is not None and background != name
        }
        right = wrong = 0
        for background, speedup in beside.items():
            expectation = expected(own, self.labels[background])
            if expectation is Expectation.UNKNOWN:
                continue
            if (speedup < 1.0) == (expectation is Expectation.SLOW):
                right += 1
            else:
                wrong += 1
        found = frozenset(
            resource for resource in SHARED if self._suffers(beside.items(), resource)
        )
        return LabelCheck(name, own & SHARED, found, right, wrong)

    def _suffers(self, beside: Iterable[tuple[str, float]], resource: Resource) -> bool:
        """Below its own speed beside users of a resource, and worse than beside others."""
        users: list[float] = []
        others: list[float] = []
        for background, speedup in beside:
            (users if resource in self.labels[background] else others).append(speedup)
        if not users or fmean(users) >= 1.0:
            return False
        return not others or fmean(users) < fmean(others)


def check_labels(model: Model) -> list[LabelCheck]:
    """The labels against the whole matrix."""
    learner = Learner(model.labels)
    for primary, background in permutations(model.matrix.names, 2):
        learner.observe(primary, background, model.matrix.speedup(primary, background))
    return learner.check()
