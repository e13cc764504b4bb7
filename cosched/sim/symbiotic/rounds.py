"""Tries schedules of pairs, one a round, to find the best one (section 3.3).

The paper's scheduler "can experiment with different combinations to eventually discover
the best schedule". That costs nothing: even the worst user-guided schedule is a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean
from typing import TypeAlias

from cosched.core.cluster.queue.halves.learner import LabelCheck, Learner
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Labels
from cosched.sim.symbiotic.matrix import Model, SpeedupMatrix
from cosched.sim.symbiotic.pairings import (
    Pairs,
    both_orders,
    throughput,
    user_guided,
)

#: Returns the measured speedup of (primary, background or None).
Observe: TypeAlias = Callable[[str, "str | None"], float]


@dataclass(frozen=True, slots=True)
class Round:
    """One round and the state of the learner after it."""

    schedule: Pairs  #: the pairs that ran
    throughput: float  #: the mean speedup of its applications, by the matrix
    error: float  #: the learner's mean error over all pairs, as a speedup
    refuted: int  #: applications whose label the observations contradict


def next_schedule(names: Sequence[str], learner: Learner) -> Pairs:
    """Returns the user-guided schedule with the most pairs without observations.

    Among equals, the one with the best estimate. Raises CoschedError if there is none."""

    def worth(schedule: Pairs) -> tuple[int, float]:
        pairs = list(both_orders(schedule))
        new = sum(pair not in learner.seen for pair in pairs)
        return new, fmean(learner.estimate(*pair) for pair in pairs)

    guided = list(user_guided(names, learner.labels))
    if not guided:
        raise CoschedError("the labels warn of every schedule in pairs")
    return max(guided, key=worth)


def experiment(
    model: Model,
    rounds: int,
    labels: Labels | None = None,
    observe: Observe | None = None,
) -> list[Round]:
    """Runs ``rounds`` schedules, each chosen from the observations so far.

    labels: the users' labels, by default the model's. observe: returns the speedup of a
    pair, by default that of the matrix.
    """
    learner = Learner(model.labels if labels is None else labels)
    see = model.matrix.speedup if observe is None else observe
    ran = []
    for _ in range(rounds):
        schedule = next_schedule(model.matrix.names, learner)
        for pair in both_orders(schedule):
            learner.observe(*pair, see(*pair))
        ran.append(
            Round(
                schedule,
                throughput(model.matrix, schedule),
                error(learner, model.matrix),
                sum(
                    check.verdict in ("not seen", "more found") for check in learner.check()
                ),
            )
        )
    return ran


def error(learner: Learner, matrix: SpeedupMatrix) -> float:
    """Returns the mean error of the learner's estimates over all pairs of the matrix."""
    off = [
        abs(learner.estimate(*pair) - matrix.speedup(*pair))
        for pair in permutations(matrix.names, 2)
    ]
    return fmean(off) if off else 0.0


def check_labels(model: Model) -> list[LabelCheck]:
    """Checks the labels against the whole matrix."""
    learner = Learner(model.labels)
    for primary, background in permutations(model.matrix.names, 2):
        learner.observe(primary, background, model.matrix.speedup(primary, background))
    return learner.check()
