"""Reads the model, runs the jobs and saves them for the commands about shared nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import option
from cosched.cli.files import check_writable
from cosched.cli.sim.options import carry_out_runs, command_line, write_results
from cosched.cli.values import Parsed, some_of
from cosched.config.symbiosis import PART
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.documents import read_json
from cosched.sim.queue.columns import Columns, save_columns
from cosched.sim.symbiotic.datastar import MODELS
from cosched.sim.symbiotic.matrix import Model, parse_model
from cosched.sim.symbiotic.symbiotic_runs import (
    NAMES,
    ORDERS,
    SharingOutcome,
    SharingRun,
    carry_out,
)


def model_option(default: str) -> Any:
    """``--model``."""
    return option(
        "--model",
        default=default,
        metavar="datastar|npb|FILE",
        help="Speedups of applications beside each other, and users' labels.",
    )


def read_model(name: str) -> Model:
    """Returns a model by its name, or from a file."""
    if name in MODELS:
        return MODELS[name]
    try:
        document = read_json(Path(name))
    except CoschedError as error:
        raise CoschedError(
            f"model '{name}': neither {' nor '.join(MODELS)}, nor a model's file ({error})"
        ) from None
    return parse_model(document, name)


def placements_option(default: str, help: str) -> Any:
    """``--placements A,B``."""
    return option("--placements", type=some_of(NAMES), default=default, help=help)


def order_option(default: str) -> Any:
    """``--order``."""
    return option(
        "--order",
        type=click.Choice(list(ORDERS)),
        default=default,
        help="Order in which jobs are considered.",
    )


def share_up_to_option(default: str) -> Any:
    """``--share-up-to``."""
    return option(
        "--share-up-to",
        type=Parsed("PART|auto", PART.named, PART.text),
        default=default,
        help="The largest jobs that may have halves, as a part of the nodes; "
        "auto: as in a domain.",
    )


def simulate(
    model_name: str,
    runs: Sequence[SharingRun],
    save_in: Path | None,
    json_file: Path | None,
    render: Callable[[Sequence[SharingOutcome]], str],
) -> None:
    """Carries out all runs, saves their jobs if asked for, and writes the outcomes."""
    check_writable(json_file)
    outcomes = carry_out_runs(carry_out, runs, len(os.sched_getaffinity(0)))
    files = [] if save_in is None else save(outcomes, save_in, command_line())
    document = {
        "model": model_name,
        "runs": [outcome.document() for outcome in outcomes],
        "files": [str(file) for file in files],
    }
    write_results(json_file, render(outcomes), document)


def save(outcomes: Sequence[SharingOutcome], folder: Path, command: str) -> list[Path]:
    """Writes ``STREAM-SEED.PLACEMENT.npz`` and ``.csv``; returns their paths.

    Columns: job, application, size_halves, walltime_s (as the scheduler expects), own_s
    (run time on whole nodes), submit_s, start_s, end_s, halves (``0 2 5``; of node h // 2).
    """
    paths: list[Path] = []
    for outcome in outcomes:
        jobs = [entry.job for entry in outcome.stream]
        for name, shared in outcome.shared.items():
            columns: Columns = {
                "job": [job.number for job in jobs],
                "application": [job.application for job in jobs],
                "size_halves": [job.size for job in jobs],
                "walltime_s": [job.walltime_ns / NS_PER_S for job in jobs],
                "own_s": [entry.run_ns / NS_PER_S for entry in outcome.stream],
                "submit_s": [at_ns / NS_PER_S for at_ns in shared.submit_ns],
                "start_s": [at_ns / NS_PER_S for at_ns in shared.start_ns],
                "end_s": [at_ns / NS_PER_S for at_ns in shared.end_ns],
                "halves": [" ".join(map(str, sorted(halves))) for halves in shared.halves],
            }
            stem = folder / f"{outcome.run.name.replace(' ', '-')}.{name}"
            paths += save_columns(stem, columns, command, outcome.figures[name])
    return paths
