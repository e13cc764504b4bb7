"""A scheduler that experiments with schedules in pairs, one a round (section 3.3).

It "can experiment with different combinations to eventually discover the best schedule",
which costs nothing, as even the worst user-guided schedule is a gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from cosched.core.cluster.symbiosis.learner import Learner
from cosched.core.cluster.symbiosis.matrix import Model
from cosched.core.cluster.symbiosis.pairings import (
    Pairs,
    both_orders,
    throughput,
    user_guided,
)
from cosched.core.cluster.symbiosis.resources import Labels
from cosched.core.errors import CoschedError

#: What counters say of (primary, background or nobody): a speedup.
Observe: TypeAlias = Callable[[str, "str | None"], float]


@dataclass(frozen=True, slots=True)
class Round:
    """What ran, and what the learner knew afterwards.

    throughput: of the schedule, by the matrix. error: of the learner's estimates, the mean
    over all pairs. refuted: applications whose label is not what was seen.
    """

    schedule: Pairs
    throughput: float
    error: float
    refuted: int


def next_schedule(names: Sequence[str], learner: Learner) -> Pairs:
    """What an experimenting scheduler runs next: the user-guided schedule with most pairs
    not seen so far, of those the one with the best estimate; all seen, the best."""

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
    """So many schedules, each chosen by what was seen of those before.

    labels: what the users said, by default the model's. observe: what is seen of a pair,
    by default exactly what the matrix says.
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
                learner.error(model.matrix),
                sum(
                    check.verdict in ("not seen", "more found") for check in learner.check()
                ),
            )
        )
    return ran
