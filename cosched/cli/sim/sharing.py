"""What the commands about jobs that share nodes have in common."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click

from cosched.cli.files import write_json
from cosched.cli.options import json_file_option
from cosched.core.cluster.symbiosis.datastar import MODELS
from cosched.core.cluster.symbiosis.matrix import Model, parse_model
from cosched.core.errors import CoschedError
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress
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


json_option = json_file_option()


def read_model(name: str) -> Model:
    """A model by name, or from a file."""
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


save_option = click.option(
    "--save",
    "save_in",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write each stream's jobs there, as npz and CSV.",
)


def simulate(
    runs: Sequence[SharingRun], save_in: Path | None
) -> tuple[list[SharingOutcome], list[Path]]:
    """All runs, side by side, with progress on standard error; and the files saved."""
    with open_progress(sys.stderr, len(runs)) as heard:
        outcomes = carry_out_all(carry_out, runs, len(os.sched_getaffinity(0)), heard)
    if save_in is None:
        return outcomes, []
    return outcomes, save(outcomes, save_in, _words())


def runs_document(
    model_name: str, outcomes: Sequence[SharingOutcome], files: Sequence[Path]
) -> dict[str, Any]:
    """What came of runs, for JSON."""
    return {
        "model": model_name,
        "runs": [outcome.document() for outcome in outcomes],
        "files": [str(file) for file in files],
    }


def write_document(json_file: Path, document: dict[str, Any]) -> None:
    """Writes it with the command that made it."""
    write_json(json_file, {"command": _words(), "version": version("cosched"), **document})


def _words() -> str:
    return shlex.join(["cosched", *sys.argv[1:]])
