"""Lists the points of the figures and tables of Weissman et al. (2003), with results.

A point is one bar or one mark of a figure: a stream of jobs, a policy and its parameters.
Figures share points, so each is simulated once.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, TypeAlias

from cosched.core.cluster.queue.sizes.settings import Control
from cosched.sim.malleable.malleable_runs import (
    Case,
    MalleableOutcome,
    MalleableRun,
    Source,
)

PERCENTS = (50, 40, 30, 20, 10)
DEGREES: tuple[int | None, ...] = (3, 6, 9, 12, None)
BETAS = (0.25, 0.5, 0.75, 1.0)
EXECUTIONS = ("linear", "parabolic")
EXAMINED = ("even-fr", "even-fq", "low-impact-fr", "low-impact-fq")
USERS = ("ge", "mixed")
BEST = "low-impact-fr"
QUEUES = ("ideal-only", "ideal-backfill")
BASELINES = (*QUEUES, "moldable")
SYSTEM, SYSTEM_NODES = "sdsc", 128
#: The load of system-centric streams that the fitted model has by itself.
SYSTEM_LOAD = 0.54
NO_BETA = 0.0  # of system-centric streams


@dataclass(frozen=True, slots=True)
class Point:
    """A stream, a policy and its parameters."""

    source: str  #: the name of the jobs' Source
    execution: str  #: the name of the model of execution
    beta: float  #: as in Source; NO_BETA without such arrivals
    case: Case  #: the policy and its parameters


Figures: TypeAlias = Mapping[str, float]
Measured: TypeAlias = Mapping[Point, Figures]


def case_of(policy: str, degree: int | None, percent: int) -> Case:
    """A case; queues know no minimum and are the same at each."""
    return Case(policy, degree, 100 if policy in QUEUES else percent)


def system(policy: str, degree: int | None, percent: int, execution: str) -> Point:
    """A point of the system-centric experiments."""
    return Point(SYSTEM, execution, NO_BETA, case_of(policy, degree, percent))


def users(source: str, beta: float, policy: str, percent: int) -> Point:
    """A point of the user-centric experiments, which have no limit on the degree."""
    return Point(source, "parabolic", beta, case_of(policy, None, percent))


def points_of(figure: str) -> list[Point]:
    """The content of a figure or table."""
    compared = (*BASELINES, BEST)
    first = (*BASELINES, "even-fq")
    if figure == "fig9":
        return [system(*at) for at in product(first, [None], PERCENTS, EXECUTIONS)]
    if figure in ("fig10", "fig11", "fig12", "fig13"):
        return [system(*at) for at in product(EXAMINED, DEGREES, PERCENTS, ["linear"])]
    if figure == "fig14":
        return [system(*at) for at in product(compared, [None], PERCENTS, ["linear"])]
    if figure == "table2":
        return [system(*at) for at in product(EXAMINED, DEGREES, PERCENTS, EXECUTIONS)]
    if figure in ("fig15", "fig16"):
        return [users(*at) for at in product(USERS, BETAS, compared, PERCENTS)]
    if figure == "table3":
        return [users(*at) for at in product(["ge"], BETAS, compared, (50, 30, 10))]
    raise ValueError(f"no figure {figure}")


def given(point: Point) -> Point:
    """The point where FQ gives to running jobs what the queue does not want."""
    policy = point.case.policy
    if policy.endswith("-fq"):
        policy = f"{policy.removesuffix('-fq')}-qr"
    return replace(point, case=replace(point.case, policy=policy))


def runs_of(
    figures: Iterable[str],
    repeat: int,
    count: int,
    load: float = SYSTEM_LOAD,
    *,
    give: bool = False,
) -> list[MalleableRun]:
    """Returns the runs that measure all points of the figures, stream by stream.

    So each point has about as many streams at any time. Within a stream, the longest run
    comes first."""
    cases: dict[tuple[str, str, float], list[Case]] = defaultdict(list)
    for figure in figures:
        for shown in points_of(figure):
            point = given(shown) if give else shown
            cases[point.source, point.execution, point.beta].append(point.case)
    runs = [
        MalleableRun(
            Source(
                name=source,
                count=count,
                seed=seed,
                beta=beta,
                machine=SYSTEM_NODES if source == SYSTEM else None,
                strict=False,
                load=load if source == SYSTEM else None,
            ),
            execution,
            Control(),
            tuple(dict.fromkeys(wanted)),
            references=QUEUES,
        )
        for (source, execution, beta), wanted in cases.items()
        for seed in range(repeat)
    ]
    return sorted(runs, key=lambda run: (run.source.seed, -len(run.cases)))


def measured(outcomes: Sequence[MalleableOutcome]) -> dict[Point, dict[str, float]]:
    """Means over the streams; ``streams``: how many; ``error_of_total_s``: the standard
    error of that mean."""
    found: dict[Point, list[Mapping[str, float]]] = defaultdict(list)
    for outcome in outcomes:
        run = outcome.run
        beta = run.source.beta
        for case, figures in zip(run.cases, outcome.figures, strict=True):
            found[Point(run.source.name, run.execution, beta, case)].append(figures)
    return {point: _mean(several) for point, several in found.items()}


def _mean(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    mean = {
        name: statistics.fmean(figures[name] for figures in several) for name in several[0]
    }
    totals = [figures["mean_total_s"] for figures in several]
    spread = statistics.stdev(totals) if len(totals) > 1 else 0.0
    mean["error_of_total_s"] = spread / math.sqrt(len(totals))
    mean["streams"] = len(several)
    return mean


def document(points: Measured) -> list[dict[str, Any]]:
    """The points for JSON."""
    return [{**asdict(point), "figures": dict(found)} for point, found in points.items()]
