"""Declares the options that several simulation commands share, and how they run and
report."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from cosched.cli.declared import argument, option
from cosched.cli.files import check_writable, write_outcome
from cosched.cli.options import PATH
from cosched.cli.printing import display_stream
from cosched.cli.values import Whole
from cosched.core.errors import CoschedError
from cosched.sim.parallel import Outcome, OutcomeT, RunT, Work, carry_out_all
from cosched.sim.progress import open_progress
from cosched.version import VERSION


class Written(Outcome, Protocol):
    """An outcome that a file may keep."""

    def document(self) -> dict[str, Any]:
        """Returns the outcome as JSON."""


WrittenT = TypeVar("WrittenT", bound=Written)


def logs_argument(metavar: str) -> Any:
    """One or more logs."""
    return argument(type=PATH, nargs=-1, required=True, metavar=metavar)


def log_argument() -> Any:
    """One log."""
    return argument(type=PATH, metavar="TRACE.swf")


@contextmanager
def read_again(logs: Iterable[Path]) -> Iterator[list[Path]]:
    """Yields the logs as files that several runs can read. A pipe can be read once, so its
    content is copied. Raises CoschedError if it cannot be."""
    with tempfile.TemporaryDirectory(prefix="cosched-logs-") as folder:
        yield [_copied(log, Path(folder, str(place))) for place, log in enumerate(logs)]


def _copied(log: Path, folder: Path) -> Path:
    if log.is_file() or log.is_dir() or not log.exists():
        return log  # its reader reports what is wrong
    folder.mkdir()
    copy = folder / log.name
    try:
        with log.open("rb") as pipe, copy.open("wb") as file:
            shutil.copyfileobj(pipe, file)
    except OSError as error:
        raise CoschedError(f"{log}: cannot be copied ({error.strerror})") from error
    return copy


def machine_option(
    help: str = "Nodes of the machine; by default those in the log's header.",
) -> Any:
    """``--machine NODES``; ``None`` by default."""
    return option("--machine", type=Whole(1), metavar="NODES", help=help)


def strict_option() -> Any:
    """``--strict``. The older --skip-bad is what happens without it."""
    return option(
        "--strict",
        is_flag=True,
        before=(click.option("--skip-bad", is_flag=True, hidden=True, expose_value=False),),
        help="Refuse logs with a bad line or jobs out of order.  [default: leave out bad"
        " lines and count them, and sort]",
    )


def seed_option(help: str = "Random seed.") -> Any:
    """``--seed``."""
    return option("--seed", type=int, default=0, help=help)


def repeat_option(default: int, help: str) -> Any:
    """``--repeat N``."""
    return option("--repeat", type=Whole(1), default=default, metavar="N", help=help)


def save_option() -> Any:
    """``--save FOLDER``."""
    return option(
        "--save",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Write the jobs of each run there, as npz and CSV.",
    )


def calibration_option() -> Any:
    """``--calibration FILE``, for commands that read one."""
    return option(
        "--calibration",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="A file of 'cosched sim calibrate'; by default the one beside the workload.",
    )


def command_line() -> str:
    """Returns the command that the user typed, for the files that it makes."""
    return shlex.join(["cosched", *sys.argv[1:]])


def carry_out_runs(
    work: Work[RunT, OutcomeT], runs: Sequence[RunT], at_a_time: int
) -> list[OutcomeT]:
    """Returns the outcomes of all runs; shows progress on standard error."""
    with open_progress(display_stream(), len(runs), at_a_time) as report:
        return carry_out_all(work, runs, at_a_time, report)


def simulate(
    work: Work[RunT, WrittenT],
    runs: Sequence[RunT],
    at_a_time: int,
    json_file: Path | None,
    render: Callable[[Sequence[WrittenT]], str],
    **facts: Any,
) -> None:
    """Carries out all runs, prints and writes the outcomes. facts: more of the JSON."""
    check_writable(json_file)
    outcomes = carry_out_runs(work, runs, at_a_time)
    document = {**facts, "runs": [outcome.document() for outcome in outcomes]}
    write_results(json_file, render(outcomes), document)


def write_results(json_file: Path | None, text: str, document: Mapping[str, Any]) -> None:
    """Prints and writes an outcome; the JSON also has the command and the version that made
    it."""
    made_by = {"command": command_line(), "version": VERSION}
    write_outcome(json_file, text, {**made_by, **document})
