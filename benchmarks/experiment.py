"""Runs a benchmark: its command line, its simulations, its files, one line for an error."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.processes import RunFailed
from cosched.core.errors import CoschedError
from cosched.sim.parallel import Outcome, OutcomeT, RunT, Work, carry_out_all
from cosched.sim.progress import open_progress

#: A shell's exit status for a command that SIGINT ended.
INTERRUPTED = 130

Document = Mapping[str, Any]
#: Draws a document into a file, in the format of the file's name.
Draw = Callable[[Document, Path], None]


class Bench(argparse.ArgumentParser):
    """The command line of ``scripts/dev bench NAME``.

    description: printed as it is. example: arguments of an example.
    """

    def __init__(self, name: str, description: str | None, example: str = "") -> None:
        self.name = name
        prog = f"scripts/dev bench {name}"
        super().__init__(
            prog=prog,
            description=description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=f"example: {prog} {example}" if example else None,
        )

    def add_folder(self) -> None:
        """Adds --out, the folder of the results."""
        self.add_argument("--out", type=Path, required=True, help="folder for what is made")

    def add_page(self) -> None:
        """Adds --docs, a page of the results."""
        self.add_argument(
            "--docs", type=Path, metavar="PAGE", help="rewrite a part of this page"
        )

    def add_repeat(self, default: int, what: str) -> None:
        """Adds --repeat. what: the runs that are repeated."""
        self.add_argument(
            "--repeat", type=positive, default=default, help=f"{what} (default {default})"
        )

    def add_parallel(self) -> None:
        """Adds --jobs, the number of simulations at a time."""
        self.add_argument(
            "--jobs", type=positive, default=1, help="runs at a time (default 1)"
        )

    def parse(self, words: Sequence[str] | None = None) -> argparse.Namespace:
        """Returns the options. command: the whole command line."""
        given = sys.argv[1:] if words is None else list(words)
        options = self.parse_args(given)
        options.command = shlex.join([*self.prog.split(), *given])
        return options

    def run(
        self,
        work: Callable[[argparse.Namespace], tuple[Iterable[str], object]],
        words: Sequence[str] | None = None,
    ) -> None:
        """Runs a benchmark that makes one set of figures. --json writes them to a file.

        work: returns the lines to print, and the figures.
        """
        self.add_argument(
            "--json", type=Path, metavar="FILE", help="also write the figures"
        )
        options = self.parse(words)
        with in_one_line(self.name):
            lines, figures = work(options)
            try:
                for line in lines:
                    print(line, flush=True)
            finally:  # an interruption leaves the figures that are there
                if options.json is not None and figures:
                    write_json(options.json, figures)


def positive(text: str) -> int:
    """Returns a whole number from 1 on, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def above_zero(text: str) -> float:
    """Returns a number above 0 and below a million, for argparse."""
    number = float(text)
    if not 0.0 < number < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not above 0 and below a million")
    return number


def numbers(text: str) -> list[int]:
    """Returns whole numbers from 1 on, which have commas between them, for argparse."""
    return [positive(word) for word in text.split(",")]


@contextmanager
def in_one_line(name: str, interrupted: str = "interrupted") -> Iterator[None]:
    """Turns an error of the command ``name`` into one line and exit status 1.

    An interruption gives the line ``interrupted`` and exit status 130.
    """
    try:
        with interruptible():
            yield
    except (CoschedError, OSError, JSONDecodeError) as error:
        sys.exit(line_of(name, error))
    except KeyboardInterrupt:
        print(f"{name}: {interrupted}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def line_of(name: str, error: Exception) -> str:
    """Returns the line of an error, after the last lines of a program that failed."""
    output = error.failure.output if isinstance(error, RunFailed) else ()
    return "\n".join([*(f"  | {line}" for line in output), f"{name}: {error}"])


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the lower quartile, the median and the upper one of one or more values."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def need_cpus(least: int) -> None:
    """Raises CoschedError if this process may use fewer CPUs."""
    if len(os.sched_getaffinity(0)) < least:
        raise CoschedError(f"needs {least} CPUs")


def simulate(
    work: Work[RunT, OutcomeT],
    runs: Sequence[RunT],
    jobs: int,
    keep: Callable[[Any], None] = lambda _outcome: None,
) -> list[OutcomeT]:
    """Returns the outcomes of all runs, and shows the progress. keep: gets each outcome at
    once."""
    with open_progress(sys.stderr, len(runs), jobs) as show:

        def note(done: float, outcome: Outcome | None) -> None:
            if outcome is not None:
                keep(outcome)
            show(done, outcome)

        return carry_out_all(work, runs, jobs, note)


def write_json(path: Path, content: object) -> None:
    """Writes values and dataclasses as JSON."""
    path.write_text(json.dumps(content, indent=1, default=asdict) + "\n")


def write_figure(
    stem: Path, document: Document, text: str, draw: Draw, endings: Sequence[str]
) -> None:
    """Writes a figure as STEM.json, STEM.txt and pictures, and prints its text."""
    write_json(stem.with_name(f"{stem.name}.json"), document)
    stem.with_name(f"{stem.name}.txt").write_text(text)
    for ending in endings:
        draw(document, stem.with_name(f"{stem.name}.{ending}"))
    print(text, end="", flush=True)
