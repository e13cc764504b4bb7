"""Symbiotic space-sharing: the figures of Weinberg and Snavely (ICS 2006).

table4: the speedups of six applications beside each other, and the numbers of section 3.3
    computed from them: random and best and worst user-guided schedule, right predictions.
schedules: the throughput of all schedules in pairs, and what an experimenting scheduler
    runs, one schedule a round.
streams: makespans of the 100-job stream of section 2.4 under each placement, from the
    NAS benchmarks' speedups (Tables 1 and 2). The stream itself is not published: many
    are drawn, and means given.

Written are JSON, a table of text, and a picture (PNG and SVG) of each part. Figures 1 to 4
and Tables 1 to 4 are measurements; ``python -m benchmarks.kernels`` makes such of your
machine, and --model takes them.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.experiments.section import rewrite
from benchmarks.experiments.symbiosis_report import DRAWN, section
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.datastar import MODELS
from cosched.core.symbiosis.learner import check_labels
from cosched.core.symbiosis.matrix import Model, model_document, parse_model
from cosched.core.symbiosis.pairings import assess, schedules, throughput, warned
from cosched.core.symbiosis.rounds import experiment
from cosched.core.symbiosis.scheduler import ORDERS
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress
from cosched.sim.stream import StreamRecipe
from cosched.sim.symbiotic_runs import NAMES, SharingRun, carry_out
from cosched.sim.symbiotic_table import (
    assessment_table,
    checks_table,
    matrix_table,
    ratio,
    stream_table,
)

ROUNDS = 12
QUEUES = (12, 100)
PARTS = ("table4", "schedules", "streams")


def table4(model: Model) -> dict[str, Any]:
    """The matrix and what follows from it."""
    found = assess(model)
    return {
        **model_document(model),
        "assessment": asdict(found),
        "labels": [check.document() for check in check_labels(model)],
        "text": "\n".join(
            (
                matrix_table(model),
                assessment_table(found),
                checks_table(check_labels(model)),
            )
        ),
    }


def all_schedules(model: Model) -> dict[str, Any]:
    """Every schedule in pairs, the worst first; and rounds of an experimenting one."""
    rows = [
        {
            "pairs": schedule,
            "throughput": throughput(model.matrix, schedule),
            "guided": not any(warned(model.labels, pair) for pair in schedule),
        }
        for schedule in schedules(model.matrix.names)
    ]
    rows.sort(key=lambda row: float(row["throughput"]))  # type: ignore[arg-type]
    rounds = [one.throughput for one in experiment(model, ROUNDS)]
    lines = [
        f"{row['throughput'] - 1:+7.1%}  {'guided' if row['guided'] else 'warned':<8}"  # type: ignore[operator]
        + " ".join("+".join(filter(None, pair)) for pair in row["pairs"])  # type: ignore[attr-defined]
        for row in rows
    ]
    lines.append("rounds: " + " ".join(f"{speedup - 1:.1%}" for speedup in rounds))
    return {"schedules": rows, "rounds": rounds, "text": "\n".join(lines) + "\n"}


def streams(model: Model, repeat: int, jobs: int, at_a_time: int) -> dict[str, Any]:
    """Every placement, in either order, with a short queue and with a long one."""
    cells = list(product(ORDERS, QUEUES))
    runs = [
        SharingRun(
            model, StreamRecipe(jobs=jobs, seed=seed), order=order, queue_limit=queue
        )
        for order, queue in cells
        for seed in range(repeat)
    ]
    with open_progress(sys.stderr, len(runs)) as heard:
        outcomes = carry_out_all(carry_out, runs, at_a_time, heard)
    rows, text = [], []
    for place, (order, queue) in enumerate(cells):
        here = outcomes[place * repeat : (place + 1) * repeat]
        text += [f"order {order}, at most {queue} jobs queued", stream_table(here)]
        for name in NAMES:
            figures = [outcome.figures[name] for outcome in here]
            rows.append(
                {
                    "order": order,
                    "queue": queue,
                    "placement": name,
                    **{
                        key: sum(one[key] for one in figures) / repeat for key in figures[0]
                    },
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


def read_model(name: str) -> Model:
    """A model by name, or from a file."""
    if name in MODELS:
        return MODELS[name]
    return parse_model(json.loads(Path(name).read_text()), name)


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="dev bench symbiosis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--model", help="datastar, npb or a file, for all parts (default: the paper's)"
    )
    parser.add_argument("--repeat", type=int, default=100, help="streams (default 100)")
    parser.add_argument("--stream-jobs", type=int, default=100, help="of each")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time (default 1)")
    parser.add_argument("--out", type=Path, required=True, help="folder for what is made")
    parser.add_argument("--docs", type=Path, help="a page whose section is rewritten")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    options.out.mkdir(parents=True, exist_ok=True)
    six, nas = (read_model(options.model or name) for name in ("datastar", "npb"))
    made = {
        "table4": lambda: table4(six),
        "schedules": lambda: all_schedules(six),
        "streams": lambda: streams(nas, options.repeat, options.stream_jobs, options.jobs),
    }
    results = {part: made[part]() for part in options.parts}
    command = shlex.join(["scripts/dev", "bench", "symbiosis", *(words or sys.argv[1:])])
    document = json.dumps({"command": command, **results}, indent=1)
    (options.out / "symbiosis.json").write_text(document + "\n")
    text = "\n".join(result["text"] for result in results.values())
    (options.out / "symbiosis.txt").write_text(text)
    for part, result in results.items():
        DRAWN[part](result, options.out / f"symbiosis_{part}")
    if options.docs is not None:
        if set(results) != set(PARTS) or options.model is not None:
            raise CoschedError("--docs shows the paper's figures: all parts, no --model")
        rewrite(options.docs, "symbiosis", section(results))
    print(text, end="")


if __name__ == "__main__":
    main()
