"""Reads the model and runs the jobs for the commands about shared nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import option
from cosched.cli.files import check_writable
from cosched.cli.sim.options import carry_out_runs, command_line, write_results
from cosched.cli.values import some_of
from cosched.core.errors import CoschedError
from cosched.documents import read_json
from cosched.sim.symbiotic.datastar import MODELS
from cosched.sim.symbiotic.matrix import Model, parse_model
from cosched.sim.symbiotic.save import save
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
