"""Computes Tables 3 and 4, the stream, the learner and a log, without real nodes.

The stream of section 2.4 is not published: many are drawn, and means given.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.experiment import simulate
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.symbiosis.resources import Resource
from cosched.sim.symbiotic.datastar import DATASTAR
from cosched.sim.symbiotic.matrix import Model, model_document
from cosched.sim.symbiotic.pairings import assess, schedules, throughput, warned
from cosched.sim.symbiotic.rounds import Round, check_labels, error, experiment
from cosched.sim.symbiotic.stream import StreamRecipe
from cosched.sim.symbiotic.symbiotic_runs import NAMES, ORDERS, SharingRun, carry_out
from cosched.sim.symbiotic.symbiotic_table import (
    assessment_table,
    checks_table,
    log_table,
    matrix_table,
    means,
    ratio,
    stream_table,
)
from cosched.tables import table

Document = dict[str, Any]

ROUNDS = 12
QUEUES = (12, 100)
#: The number of random draws, and the error of the counters.
DRAWS = 20
NOISE = 0.05
SHARING = ("labels", "anyhow", "learned")


def table3(model: Model) -> Document:
    """Users' labels, and whether Table 4 confirms each."""
    checks = check_labels(model)
    said = {
        name: sorted(limit.value for limit in limits)
        for name, limits in model.labels.items()
    }
    names = [resource.value for resource in Resource]
    rows = [
        (name, *("x" if one in limits else "" for one in names))
        for name, limits in said.items()
    ]
    lines = table(("application", *names), rows, "<" + ">" * len(names))
    return {
        "said": said,
        "labels": [check.document() for check in checks],
        "text": "\n".join(lines) + f"\n\n{checks_table(checks)}",
    }


def table4(model: Model) -> Document:
    """The matrix and what follows from it."""
    found = assess(model)
    return {
        **model_document(model),
        "assessment": asdict(found),
        "text": f"{matrix_table(model)}\n{assessment_table(found)}",
    }


def learner(model: Model) -> Document:
    """Computes every schedule in pairs, worst first, and the rounds of schedulers that try
    schedules with different labels and counters."""
    rows: list[Document] = [
        {
            "pairs": schedule,
            "throughput": throughput(model.matrix, schedule),
            "guided": not any(warned(model.labels, pair) for pair in schedule),
        }
        for schedule in schedules(model.matrix.names)
    ]
    rows.sort(key=lambda row: float(row["throughput"]))
    cases = {
        "users' labels": [experiment(model, ROUNDS)],
        "no labels": [experiment(model, ROUNDS, _told_nothing(model))],
        "labels mixed up": [
            experiment(model, ROUNDS, _mixed_up(model, seed)) for seed in range(DRAWS)
        ],
        "users' labels, counters off by 5%": [
            experiment(model, ROUNDS, observe=_noisy(model, seed)) for seed in range(DRAWS)
        ],
    }
    before = error(Learner(model.labels), model.matrix)
    document = {
        "schedules": rows,
        "error_before": before,
        "rounds": {name: _means(runs) for name, runs in cases.items()},
        "labels": [check.document() for check in check_labels(model)],
    }
    return {**document, "text": _learner_text(document)}


def _means(runs: Sequence[Sequence[Round]]) -> list[dict[str, float]]:
    return [
        {
            "throughput": fmean(one.throughput for one in ran),
            "error": fmean(one.error for one in ran),
            "refuted": fmean(one.refuted for one in ran),
        }
        for ran in zip(*runs, strict=True)
    ]


def _told_nothing(model: Model) -> dict[str, frozenset[Resource]]:
    """Returns labels that never warn, because the CPU is not shared."""
    return dict.fromkeys(model.matrix.names, frozenset({Resource.CPU}))


def _mixed_up(model: Model, seed: int) -> dict[str, frozenset[Resource]]:
    """Returns the labels in random order."""
    limits = list(model.limits)
    Random(seed).shuffle(limits)
    return dict(zip(model.matrix.names, limits, strict=True))


def _noisy(model: Model, seed: int) -> Any:
    chance = Random(seed)

    def observe(primary: str, background: str | None) -> float:
        return model.matrix.speedup(primary, background) * chance.gauss(1.0, NOISE)

    return observe


def _learner_text(document: Document) -> str:
    rows = [
        (
            f"{row['throughput'] - 1:+.1%}",
            "guided" if row["guided"] else "warned",
            " ".join("+".join(filter(None, pair)) for pair in row["pairs"]),
        )
        for row in document["schedules"]
    ]
    lines = table((), rows, "><<")
    lines.append(f"estimates off by {document['error_before']:.1%} before the first round")
    for name, ran in document["rounds"].items():
        lines.append(f"{name}, rounds 1 to {len(ran)}:")
        for figure, title in (("throughput", "gain"), ("error", "off by")):
            less = 1.0 if figure == "throughput" else 0.0
            values = " ".join(f"{100 * (one[figure] - less):4.1f}" for one in ran)
            lines.append(f"  {title:<7}%{values}")
    return "\n".join(lines) + "\n"


def stream(model: Model, repeat: int, jobs: int, at_a_time: int) -> Document:
    """Every placement, in either order, with a short queue and with a long one."""
    cells = list(product(ORDERS, QUEUES))
    runs = [
        SharingRun(
            model, StreamRecipe(jobs=jobs, seed=seed), order=order, queue_limit=queue
        )
        for order, queue in cells
        for seed in range(repeat)
    ]
    outcomes = simulate(carry_out, runs, at_a_time)
    rows, text = [], []
    for place, (order, queue) in enumerate(cells):
        here = outcomes[place * repeat : (place + 1) * repeat]
        text += [f"order {order}, at most {queue} jobs queued", stream_table(here)]
        for name in NAMES:
            rows.append(
                {
                    "order": order,
                    "queue": queue,
                    "placement": name,
                    **means(here, name),
                    "speedups": [
                        one.figures["whole"]["makespan_s"] / one.figures[name]["makespan_s"]
                        for one in here
                    ],
                    "over_whole": ratio(here, "whole", name, "makespan_s"),
                    "over_packed": ratio(here, "packed", name, "makespan_s"),
                    "compared_over_whole": ratio(here, "whole", name, "compared_s"),
                    "compared_over_packed": ratio(here, "packed", name, "compared_s"),
                }
            )
    return {"repeat": repeat, "jobs": jobs, "rows": rows, "text": "\n".join(text)}


def log(trace: Path, seeds: int, at_a_time: int) -> Document:
    """A log's jobs under each sharing placement and under EASY without sharing."""
    runs = [
        SharingRun(
            DATASTAR,
            StreamRecipe(seed=seed),
            nodes=0,
            order="fcfs",
            queue_limit=sys.maxsize,
            placements=("whole", *SHARING),
            trace=trace,
        )
        for seed in range(seeds)
    ]
    outcomes = simulate(carry_out, runs, at_a_time)
    rows = [
        {
            "placement": name,
            **means(outcomes, name),
            **{
                f"{figure}_over_whole": ratio(outcomes, "whole", name, f"{figure}_s")
                for figure in ("makespan", "mean_wait", "mean_response")
            },
            "waits_s": [outcome.figures[name]["mean_wait_s"] for outcome in outcomes],
        }
        for name in ("whole", *SHARING)
    ]
    return {
        "trace": trace.name,
        "seeds": seeds,
        "jobs": len(outcomes[0].stream),
        "nodes": outcomes[0].nodes,
        "rows": rows,
        "text": log_table(outcomes),
    }
