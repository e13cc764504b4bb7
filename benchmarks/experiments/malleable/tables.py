"""Tables 2 and 3 of Weissman et al. (2003), the paper's figures beside ours."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product

from benchmarks.experiments.malleable.points import (
    BETAS,
    DEGREES,
    EXAMINED,
    EXECUTIONS,
    PERCENTS,
    QUEUES,
    SYSTEM,
    Measured,
    system,
    users,
)
from cosched.tables import markdown

HOUR = 3600
#: Table 2: success in %, harvests a job, % of jobs as good or better; linear, parabolic.
TABLE_2 = {
    "even-fq": ((96.7, 1.6, 89.3), (98.4, 1.5, 92.8)),
    "even-fr": ((99.5, 3.2, 86.4), (99.4, 3.1, 89.0)),
    "low-impact-fq": ((96.7, 1.6, 89.2), (98.3, 1.5, 92.7)),
    "low-impact-fr": ((99.0, 3.6, 86.7), (99.4, 3.4, 89.2)),
}
#: Table 3: jobs an hour by beta, then minimum, in the order of COLUMNS_3.
COLUMNS_3 = ("ideal-only", "moldable", "ideal-backfill", "low-impact-fr")
PERCENTS_3 = (50, 30, 10)
TABLE_3 = {
    0.25: ((1.78, 2.45, 1.79, 3.16), (1.78, 2.95, 1.79, 3.73), (1.78, 2.75, 1.79, 4.04)),
    0.5: ((1.78, 2.35, 1.79, 3.15), (1.78, 2.96, 1.79, 3.71), (1.78, 2.68, 1.79, 3.93)),
    0.75: ((1.77, 2.39, 1.78, 3.12), (1.77, 2.87, 1.78, 3.67), (1.77, 2.63, 1.78, 3.68)),
    1.0: ((1.77, 2.40, 1.78, 2.94), (1.77, 2.85, 1.78, 3.01), (1.77, 2.70, 1.78, 2.99)),
}
#: The columns of the shares of jobs that are done no later than under a queue.
NO_WORSE = {name: f"no_worse_than_{name}" for name in QUEUES}
NAMES_3 = {
    "ideal-only": "IDEAL-ONLY",
    "moldable": "MOLDABLE",
    "ideal-backfill": "IDEAL-BACKFILL",
    "low-impact-fr": "Low-Imp-FR",
}


def average(measured: Measured, policy: str, execution: str, column: str) -> float:
    """Over all M and all minima, as in the paper. Cases without requests have no rate of
    success, and those in which no job was harvested no harvests of such jobs."""
    found = [
        measured[system(policy, degree, percent, execution)]
        for degree in DEGREES
        for percent in PERCENTS
    ]
    if column == "of_harvested":
        return statistics.fmean(
            figures["harvests"] / figures["harvested"]
            for figures in found
            if figures["harvested"]
        )
    if column == "success":
        found = [figures for figures in found if figures["requests"]] or found
    return statistics.fmean(figures[column] for figures in found)


def table_2(measured: Measured) -> str:
    """Harvest statistics, as a table of Markdown: paper / ours."""
    rows = []
    for policy, (place, execution) in product(EXAMINED, enumerate(EXECUTIONS)):
        success, harvests, better = TABLE_2[policy][place]
        ours = {
            column: average(measured, policy, execution, column)
            for column in ("success", "harvests", "of_harvested", *NO_WORSE.values())
        }
        shares = (f"{100 * ours[column]:.1f}" for column in NO_WORSE.values())
        rows.append(
            (
                f"{policy}, {execution}",
                f"{success} / {100 * ours['success']:.1f}",
                f"{harvests} / {ours['of_harvested']:.1f}",
                f"{ours['harvests']:.2f}",
                f"{better} / {', '.join(shares)}",
            )
        )
    head = (
        *("success, %", "harvests a harvested job", "a job"),
        "jobs no worse, % (IDEAL-ONLY, IDEAL-BACKFILL)",
    )
    return _titled("Table 2, paper / ours:", ("", *head), rows)


def table_3(measured: Measured) -> str:
    """GE's throughput in jobs an hour, as a table of Markdown: paper / ours."""
    rows = [
        (
            *(f"{beta:g}", f"{percent}%"),
            *(
                f"{theirs:.2f} / {throughput(measured, beta, policy, percent):.2f}"
                for policy, theirs in zip(COLUMNS_3, paper, strict=True)
            ),
        )
        for beta in BETAS
        for percent, paper in zip(PERCENTS_3, TABLE_3[beta], strict=True)
    ]
    head = ("beta", "minimum", *(NAMES_3[name] for name in COLUMNS_3))
    return _titled("Table 3, GE's jobs an hour, paper / ours:", head, rows)


def table_of_figure_14(measured: Measured) -> str:
    """The paper has bars alone. Hours, with the standard errors of the totals."""
    rows = []
    for percent in PERCENTS:
        found = [measured[system(name, None, percent, "linear")] for name in COLUMNS_3]
        waits = [f"{figures['mean_wait_s'] / HOUR:.2f}" for figures in found]
        totals = [
            " +- ".join(
                f"{figures[name] / HOUR:.2f}"
                for name in ("mean_total_s", "error_of_total_s")
            )
            for figures in found
        ]
        rows += [(f"{percent}%", "wait", *waits), ("", "total", *totals)]
    title = "Figure 14 in hours (+- standard error of the mean over streams):"
    return _titled(title, ("minimum", "", *(NAMES_3[name] for name in COLUMNS_3)), rows)


def _titled(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join([f"{title}\n", *markdown(head, rows)]) + "\n"


def streams(measured: Measured) -> str:
    """How much was simulated for a point."""
    counted: dict[str, list[float]] = defaultdict(list)
    for point, figures in measured.items():
        execution = f"system-centric, {point.execution}"
        kind = execution if point.source == SYSTEM else "user-centric"
        counted[kind].append(figures["streams"])
    words = [f"{_range(numbers)} ({kind})" for kind, numbers in counted.items()]
    jobs = max(figures["jobs"] for figures in measured.values())
    return f"Streams of {jobs:,.0f} jobs a point: {'; '.join(words)}.\n"


def _range(numbers: list[float]) -> str:
    few, many = min(numbers), max(numbers)
    return f"{few:.0f}" if few == many else f"{few:.0f} to {many:.0f}"


def throughput(measured: Measured, beta: float, policy: str, percent: int) -> float:
    """Of GE, in jobs an hour."""
    return measured[users("ge", beta, policy, percent)]["throughput_per_h"]
