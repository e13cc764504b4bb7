"""Lays out the figures of shared nodes as text of at most 80 columns. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from cosched.core.cluster.queue.halves.learner import LabelCheck
from cosched.core.symbiosis.resources import Expectation, Limits, effect_by_labels
from cosched.sim.cells import duration, left_out
from cosched.sim.symbiotic.matrix import Model
from cosched.sim.symbiotic.pairings import Assessment, Pairs
from cosched.sim.symbiotic.symbiotic_runs import SharingOutcome
from cosched.tables import table

MARKS = {Expectation.SLOW: "-", Expectation.SYMBIOTIC: "+", Expectation.UNKNOWN: " "}
LOG_HEAD = ("", "makespan (gain)", "wait (gain)", "response (gain)", "speed", "slowed")
HEAD = ("", "makespan", "whole /", "packed /", "wait", "speed", "slowed")


def matrix_table(model: Model) -> str:
    """Returns the speedup of each application beside each other one."""
    names = model.matrix.names
    rows = []
    for name in names:
        row = [name]
        for other in names:
            mark = " "
            if other != name:
                mark = MARKS[effect_by_labels(model.labels[name], model.labels[other])]
            row.append(f"{model.matrix.speedup(name, other):.2f}{mark}")
        rows.append([*row, f"{model.matrix.speedup(name, None):.2f}"])
    head = ("", *(f"{name[:9]} " for name in names), "nobody")
    lines = table(head, rows, "<" + ">" * (len(names) + 1), gap=1)
    lines.append("+ expected to be symbiotic, - to slow down, by users' labels")
    return "\n".join(lines) + "\n"


def assessment_table(found: Assessment) -> str:
    """Returns the numbers of section 3.3; ends with a newline."""
    rows = [
        ("user-guided, at random", _percent(found.random)),
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
    return "\n".join(table((), rows, "<<")) + "\n"


def checks_table(checks: Sequence[LabelCheck]) -> str:
    """Returns the label of each application against the observations."""
    rows = [
        (
            check.application[:13],
            _limits(check.said),
            _limits(check.found),
            f"{check.right}/{check.right + check.wrong}",
            check.verdict,
        )
        for check in checks
    ]
    head = ("application", "label", "seen", "right", "verdict")
    return "\n".join(table(head, rows, "<<<><")) + "\n"


def stream_table(outcomes: Sequence[SharingOutcome]) -> str:
    """Returns means over the streams; ends with a newline."""
    first = outcomes[0]
    streams = "stream" if len(outcomes) == 1 else "streams"
    rows = []
    for name in first.figures:
        mean = means(outcomes, name)
        rows.append(
            (
                name,
                duration(mean["makespan_s"]),
                gain(outcomes, "whole", name),
                gain(outcomes, "packed", name),
                duration(mean["mean_wait_s"]),
                *_speed(mean),
            )
        )
    lines = [
        f"{len(outcomes)} {streams} of {len(first.stream)} jobs, {first.nodes} nodes; "
        "ratios of makespans",
        *table(HEAD, rows, "<>>>>>>"),
    ]
    return "\n".join(lines) + "\n"


def log_table(outcomes: Sequence[SharingOutcome]) -> str:
    """Returns means over the draws of labels of one log; ends with a newline."""
    first = outcomes[0]
    trace = first.run.trace.name[:34] if first.run.trace is not None else ""
    draws = "draw" if len(outcomes) == 1 else "draws"
    rows = []
    for name in first.figures:
        mean = means(outcomes, name)
        cells = (
            f"{duration(mean[figure])} ({gain(outcomes, 'whole', name, figure)})"
            for figure in ("makespan_s", "mean_wait_s", "mean_response_s")
        )
        rows.append((name, *cells, *_speed(mean)))
    lines = [
        f"{trace}: {len(first.stream)} jobs, {first.nodes} nodes",
        *left_out(first.skipped),
        f"labels drawn by {first.run.draw}, {len(outcomes)} {draws}; "
        "gain: whole, EASY without sharing, / this",
        *table(LOG_HEAD, rows, "<>>>>>"),
    ]
    return "\n".join(lines) + "\n"


def _speed(mean: Mapping[str, float]) -> tuple[str, str]:
    return f"{mean['mean_speed']:.2f}", f"{mean['slowed_share']:.0%}"


def means(outcomes: Sequence[SharingOutcome], name: str) -> dict[str, float]:
    """Returns the mean of each figure of a placement, over the streams."""
    figures = [outcome.figures[name] for outcome in outcomes]
    return {key: fmean(figure[key] for figure in figures) for key in figures[0]}


def gain(
    outcomes: Sequence[SharingOutcome], base: str, name: str, figure: str = "makespan_s"
) -> str:
    """Returns the mean ratio of a figure, or a dash if the base did not run."""
    if base not in outcomes[0].figures:
        return "-"
    return f"{ratio(outcomes, base, name, figure):.3f}"


def ratio(outcomes: Sequence[SharingOutcome], base: str, name: str, figure: str) -> float:
    """Returns a figure of one placement / that of another, as a mean over the streams."""
    return fmean(
        _quotient(outcome.figures[base][figure], outcome.figures[name][figure])
        for outcome in outcomes
    )


def _quotient(one: float, other: float) -> float:
    """Returns one / other; 1 if both are 0, which is no difference."""
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
