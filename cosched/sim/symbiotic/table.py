"""The figures of symbiosis as text of at most 80 columns. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from cosched.core.cluster.symbiosis.learner import LabelCheck
from cosched.core.cluster.symbiosis.matrix import Model
from cosched.core.cluster.symbiosis.pairings import Assessment, Pairs
from cosched.core.cluster.symbiosis.resources import Expectation, Limits, expected
from cosched.sim.queue.table import duration, left_out
from cosched.sim.symbiotic.runs import SharingOutcome

MARKS = {Expectation.SLOW: "-", Expectation.SYMBIOTIC: "+", Expectation.UNKNOWN: " "}
LOG_HEAD = (
    f"{'':<9}{'makespan':>10}{'whole /':>8}{'wait':>10}{'whole /':>8}"
    f"{'response':>10}{'whole /':>8}{'speed':>7}{'slowed':>8}"
)
HEAD = (
    f"{'':<10}{'makespan':>10}{'whole /':>9}{'packed /':>10}{'wait':>10}{'speed':>7}"
    f"{'slowed':>8}"
)


def matrix_table(model: Model) -> str:
    """Each application beside each; ends with a newline."""
    names = model.matrix.names
    wide = max(10, *(len(name) + 3 for name in names))
    cells = [f"{name[:9]:>9} " for name in (*names, "nobody")]
    lines = [f"{'':<{wide}}" + "".join(cells).rstrip()]
    for name in names:
        row = f"{name:<{wide}}"
        for other in names:
            mark = " "
            if other != name:
                mark = MARKS[expected(model.labels[name], model.labels[other])]
            row += f"{model.matrix.speedup(name, other):>9.2f}{mark}"
        lines.append(row + f"{model.matrix.speedup(name, None):>9.2f}")
    lines.append("+ expected to be symbiotic, - to slow down, by users' labels")
    return "\n".join(lines) + "\n"


def assessment_table(found: Assessment) -> str:
    """The numbers of section 3.3; ends with a newline."""
    rows = [("user-guided, at random", _percent(found.random))]
    rows += [
        ("mean of the user-guided schedules", _percent(found.guided_mean)),
        ("mean of all schedules", _percent(found.blind_mean)),
        ("best user-guided schedule", _schedule(found.best_throughput, found.best)),
        ("worst user-guided schedule", _schedule(found.worst_throughput, found.worst)),
        (
            "predictions of symbiosis",
            f"{found.symbiotic_right} of {found.symbiotic} right",
        ),
        ("mean where slowdown is expected", _percent(found.slow_mean)),
        ("mean where symbiosis is expected", _percent(found.symbiotic_mean)),
    ]
    return "".join(f"{label:<34}{value}\n" for label, value in rows)


def checks_table(checks: Sequence[LabelCheck]) -> str:
    """What was seen of each label; ends with a newline."""
    lines = [f"{'application':<14}{'label':<12}{'seen':<12}{'right':>6}  verdict"]
    for check in checks:
        right = f"{check.right}/{check.right + check.wrong}"
        lines.append(
            f"{check.application[:13]:<14}{_limits(check.said):<12}"
            f"{_limits(check.found):<12}{right:>6}  {check.verdict}"
        )
    return "\n".join(lines) + "\n"


def stream_table(outcomes: Sequence[SharingOutcome]) -> str:
    """Means over the streams; ends with a newline."""
    first = outcomes[0]
    streams = "stream" if len(outcomes) == 1 else "streams"
    lines = [
        f"{len(outcomes)} {streams} of {len(first.stream)} jobs, {first.nodes} nodes; "
        "ratios of makespans",
        HEAD,
    ]
    for name in first.figures:
        mean = means(outcomes, name)
        lines.append(
            f"{name:<10}{duration(mean['makespan_s']):>10}"
            f"{gain(outcomes, 'whole', name):>9}{gain(outcomes, 'packed', name):>10}"
            f"{duration(mean['mean_wait_s']):>10}{mean['mean_speed']:>7.2f}{mean['slowed_share']:>8.0%}"
        )
    return "\n".join(lines) + "\n"


def log_table(outcomes: Sequence[SharingOutcome]) -> str:
    """Means over the draws of labels of one log; ends with a newline."""
    first = outcomes[0]
    trace = first.run.trace.name[:34] if first.run.trace is not None else ""
    draws = "draw" if len(outcomes) == 1 else "draws"
    lines = [
        f"{trace}: {len(first.stream)} jobs, {first.nodes} nodes",
        *left_out(first.skipped),
        f"labels drawn by {first.run.draw}, {len(outcomes)} {draws}; "
        "whole /: EASY without sharing to this",
        LOG_HEAD,
    ]
    for name in first.figures:
        mean = means(outcomes, name)
        row = f"{name:<9}"
        for figure in ("makespan_s", "mean_wait_s", "mean_response_s"):
            row += f"{duration(mean[figure]):>10}{gain(outcomes, 'whole', name, figure):>8}"
        lines.append(row + f"{mean['mean_speed']:>7.2f}{mean['slowed_share']:>8.0%}")
    return "\n".join(lines) + "\n"


def means(outcomes: Sequence[SharingOutcome], name: str) -> dict[str, float]:
    """Of each figure of a placement, over the streams."""
    figures = [outcome.figures[name] for outcome in outcomes]
    return {key: fmean(figure[key] for figure in figures) for key in figures[0]}


def gain(
    outcomes: Sequence[SharingOutcome], base: str, name: str, figure: str = "makespan_s"
) -> str:
    """The mean ratio, by default of makespans; or a dash without the base."""
    if base not in outcomes[0].figures:
        return "-"
    return f"{ratio(outcomes, base, name, figure):.3f}"


def ratio(outcomes: Sequence[SharingOutcome], base: str, name: str, figure: str) -> float:
    """The mean over the streams of a figure of one placement / that of another."""
    return fmean(
        _quotient(outcome.figures[base][figure], outcome.figures[name][figure])
        for outcome in outcomes
    )


def _quotient(one: float, other: float) -> float:
    """Nobody waiting under either is no difference."""
    if other == 0.0:
        return 1.0 if one == 0.0 else math.inf
    return one / other


def _percent(speedup: float | None) -> str:
    return "none" if speedup is None else f"{speedup - 1.0:+.1%}"


def _schedule(speedup: float, pairs: Pairs) -> str:
    return f"{_percent(speedup)}  " + " ".join(
        one if other is None else f"{one}+{other}" for one, other in pairs
    )


def _limits(limits: Limits) -> str:
    return ",".join(sorted(resource.value for resource in limits)) or "-"
