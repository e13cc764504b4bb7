"""Learns and expects the speeds of programs beside each other; checks users' labels.

Section 3 leaves both to "more advanced scenarios": a system that verifies the category by
historical run information, and a scheduler that tries combinations until it has found the
best.

For an observed pair the estimate is the mean. For other pairs it follows from the users'
labels (``Priors``). Limits: old observations count as much as new ones, and all runs of an
application count the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from cosched.core.errors import CoschedError
from cosched.core.symbiosis.program_pairs import Pair
from cosched.core.symbiosis.resources import (
    SHARED,
    Expectation,
    Labels,
    Limits,
    Resource,
    effect_by_labels,
)


@dataclass(frozen=True, slots=True)
class Priors:
    """Expected speedups of pairs without observations: the paper's means, 1 if unknown."""

    slow: float = 0.84  #: labels name the same resource
    symbiotic: float = 1.15  #: labels name different resources
    unknown: float = 1.0  #: a label is missing
    alone: float = 1.2  #: without a neighbour

    def of(self, expectation: Expectation) -> float:
        """Returns the expected speedup."""
        return {
            Expectation.SLOW: self.slow,
            Expectation.SYMBIOTIC: self.symbiotic,
            Expectation.UNKNOWN: self.unknown,
        }[expectation]


@dataclass(slots=True)
class Seen:
    """The mean of ``count`` observations."""

    count: int = 0  #: how many observations
    mean: float = 0.0  #: of their speedups

    def add(self, value: float) -> None:
        self.count += 1
        self.mean += (value - self.mean) / self.count


@dataclass(frozen=True, slots=True)
class LabelCheck:
    """The observations of an application, compared with its user's label."""

    application: str  #: its name
    said: Limits  #: the resources of the label that nodes share
    found: Limits  #: the resources whose users slow it down more than other neighbours do
    right: int  #: neighbours beside which its speedup was on the expected side of 1
    wrong: int  #: neighbours beside which it was not

    @property
    def verdict(self) -> str:
        """Returns the verdict on the label.

        ``confirmed``; ``not seen``: a resource of the label has no effect; ``more found``:
        a resource outside the label has one; ``unknown``: there are no observations."""
        if not self.right + self.wrong and not self.found:
            return "unknown" if self.said else "confirmed"
        if self.found - self.said:
            return "more found"
        return "not seen" if self.said - self.found else "confirmed"

    def document(self) -> dict[str, Any]:
        """Returns the check as JSON data."""
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
    """Observations by (primary, background); background None: the other halves are free."""

    labels: Labels  #: of users, by application
    priors: Priors = field(default_factory=Priors)  #: before any observation
    #: The observations, by (primary, background).
    seen: dict[tuple[str, str | None], Seen] = field(default_factory=dict)
    #: Pairs in which the first was slowed too much: no queue places them again.
    harmful: set[Pair] = field(default_factory=set)

    def observe(self, primary: str, background: str | None, speedup: float) -> None:
        """Adds an observed speedup of the primary against whole nodes of its own."""
        if not speedup > 0.0:
            raise CoschedError(
                f"application '{primary}': a speedup of {speedup:g} was observed: "
                "want more than 0"
            )
        self.seen.setdefault((primary, background), Seen()).add(speedup)

    def learn(self, pair: Pair, speed: float, runs: int) -> None:
        """Keeps what was seen of a pair, in place of what was kept. speed: the mean, where
        1 is the primary's speed on the same halves without a neighbour. runs: how many
        runs; 0: the pair is forgotten.

        Live nodes see no job on whole nodes and on halves. So the speedup without a
        neighbour is an estimate here, and the speedup of the pair is relative to it."""
        if runs:
            self.seen[pair] = Seen(runs, self.estimate(pair.primary, None) * speed)
        else:
            self.seen.pop(pair, None)

    def forbids(self, one: str, other: str) -> bool:
        """Returns whether one of two applications is known to harm the other."""
        return Pair(one, other) in self.harmful or Pair(other, one) in self.harmful

    def estimate(self, primary: str, background: str | None) -> float:
        """Returns the expected speedup of the pair, by the labels of applications."""
        if background is None:
            seen = self.seen.get((primary, None))
            return self.priors.alone if seen is None else seen.mean
        own, its = self.labels[primary], self.labels[background]
        return self.expect(primary, own, background, its)

    def expect(self, primary: str, own: Limits, background: str, its: Limits) -> float:
        """Returns the expected speedup of a job of the primary, limited by ``own``, beside
        one of the background, limited by ``its``."""
        seen = self.seen.get((primary, background))
        if seen is not None:
            return seen.mean
        if primary == background:
            return 1.0
        return self.priors.of(effect_by_labels(own, its))

    def check(self) -> list[LabelCheck]:
        """Checks each application's label, in the order of names."""
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
            expectation = effect_by_labels(own, self.labels[background])
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
        """Returns whether users of the resource slow it down more than others do."""
        users: list[float] = []
        others: list[float] = []
        for background, speedup in beside:
            (users if resource in self.labels[background] else others).append(speedup)
        if not users or fmean(users) >= 1.0:
            return False
        return not others or fmean(users) < fmean(others)
