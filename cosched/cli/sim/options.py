"""Options that several simulation commands share, and how they run and report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from cosched.cli.files import write_outcome
from cosched.cli.printing import display_stream
from cosched.sim.parallel import OutcomeT, RunT, Work, carry_out_all
from cosched.sim.progress import open_progress
from cosched.version import VERSION

F = TypeVar("F", bound=Callable[..., Any])


def logs_argument(metavar: str) -> Callable[[F], F]:
    """One or more logs."""
    return click.argument(
        "traces", type=click.Path(path_type=Path), nargs=-1, required=True, metavar=metavar
    )


def log_argument(function: F) -> F:
    """One log."""
    return click.argument("trace", type=click.Path(path_type=Path), metavar="TRACE.swf")(
        function
    )


def machine_option(
    help: str = "Nodes of the machine; the log's header says it by default.",
) -> Callable[[F], F]:
    """``--machine NODES``; ``None`` by default."""
    return click.option("--machine", type=click.IntRange(1), metavar="NODES", help=help)


def strict_option(function: F) -> F:
    """``--strict``. The older --skip-bad is what happens without it."""
    strict = click.option(
        "--strict",
        is_flag=True,
        help="Refuse logs with a bad line or jobs out of order.  [default: leave out bad"
        " lines and count them, and sort]",
    )
    older = click.option("--skip-bad", is_flag=True, hidden=True, expose_value=False)
    return strict(older(function))


def seed_option(default: int = 0, help: str = "Random seed.") -> Callable[[F], F]:
    """``--seed``."""
    return click.option("--seed", type=int, default=default, help=help)


def repeat_option(default: int, help: str) -> Callable[[F], F]:
    """``--repeat N``."""
    return click.option(
        "--repeat", type=click.IntRange(1), default=default, metavar="N", help=help
    )


def save_option(function: F) -> F:
    """``--save FOLDER``."""
    return click.option(
        "--save",
        "save_in",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Write the jobs of each run there, as npz and CSV.",
    )(function)


def command_line() -> str:
    """Returns the command that the user typed, for the files that it makes."""
    return shlex.join(["cosched", *sys.argv[1:]])


def carry_out_runs(
    work: Work[RunT, OutcomeT], runs: Sequence[RunT], at_a_time: int
) -> list[OutcomeT]:
    """Returns the outcomes of all runs; shows progress on standard error."""
    with open_progress(display_stream(), len(runs)) as report:
        return carry_out_all(work, runs, at_a_time, report)


def write_results(json_file: Path | None, text: str, document: Mapping[str, Any]) -> None:
    """Prints and writes an outcome; the JSON also has the command and the version that made
    it."""
    made_by = {"command": command_line(), "version": VERSION}
    write_outcome(json_file, text, {**made_by, **document})
