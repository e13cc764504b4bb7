"""Reads the model and runs the jobs for the commands about shared nodes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from cosched.cli.sim.options import carry_out_runs, command_line
from cosched.core.cluster.symbiosis.datastar import MODELS
from cosched.core.cluster.symbiosis.matrix import Model, parse_model
from cosched.core.errors import CoschedError
from cosched.sim.symbiotic.runs import SharingOutcome, SharingRun, carry_out
from cosched.sim.symbiotic.save import save

F = TypeVar("F", bound=Callable[..., Any])


def model_option(default: str) -> Callable[[F], F]:
    """``--model``."""
    return click.option(
        "--model",
        "model_name",
        default=default,
        show_default=True,
        metavar="datastar|npb|FILE",
        help="Speedups of applications beside each other, and users' labels.",
    )


def read_model(name: str) -> Model:
    """Returns a model by its name, or from a file."""
    if name in MODELS:
        return MODELS[name]
    try:
        return parse_model(json.loads(Path(name).read_text(encoding="utf-8")), name)
    except OSError as error:
        raise CoschedError(
            f"model '{name}': neither {' nor '.join(MODELS)}, nor a file that can be read "
            f"({error.strerror})"
        ) from error
    except ValueError as error:
        raise CoschedError(f"{name}: is not JSON ({error})") from error


def simulate(
    runs: Sequence[SharingRun], save_in: Path | None
) -> tuple[list[SharingOutcome], list[Path]]:
    """Returns the outcomes of all runs, and the files saved."""
    outcomes = carry_out_runs(carry_out, runs, len(os.sched_getaffinity(0)))
    if save_in is None:
        return outcomes, []
    return outcomes, save(outcomes, save_in, command_line())


def runs_document(
    model_name: str, outcomes: Sequence[SharingOutcome], files: Sequence[Path]
) -> dict[str, Any]:
    """Returns the outcomes as JSON."""
    return {
        "model": model_name,
        "runs": [outcome.document() for outcome in outcomes],
        "files": [str(file) for file in files],
    }
