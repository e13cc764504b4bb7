"""``cosched sim symbiosis``: jobs that share nodes, in virtual time."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import click

from cosched.cli.choose import choose
from cosched.cli.output import check_writable, writing
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.datastar import MODELS
from cosched.core.symbiosis.learner import check_labels
from cosched.core.symbiosis.matrix import Model, parse_model
from cosched.core.symbiosis.pairings import assess
from cosched.core.symbiosis.rounds import experiment
from cosched.core.symbiosis.scheduler import ORDERS
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress
from cosched.sim.stream import StreamRecipe
from cosched.sim.symbiotic_runs import NAMES, SharingRun, carry_out
from cosched.sim.symbiotic_save import save
from cosched.sim.symbiotic_table import (
    assessment_table,
    checks_table,
    matrix_table,
    stream_table,
)

F = TypeVar("F", bound=Callable[..., Any])


@click.group("symbiosis")
def symbiosis() -> None:
    """Run jobs that share nodes, half and half.

    After Weinberg and Snavely (2006). Users say what limits a job: cpu,
    memory, io or network. Jobs that are limited by different resources of a
    node suit each other. How fast they then run, a matrix says: datastar (the
    paper's Table 4), npb (its Tables 1 and 2), or one of your own machine:
    python -m benchmarks.kernels matrix --json mine.json

    \b
    Examples:
      cosched sim symbiosis pairs
      cosched sim symbiosis stream --repeat 20
      cosched sim symbiosis stream --model mine.json --nodes 16 --jobs 1000
    """


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


json_option = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Also write all figures to FILE ('-': to stdout, instead of the table).",
)


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


@symbiosis.command("pairs")
@model_option("datastar")
@click.option(
    "--rounds",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Also let an experimenting scheduler run so many schedules.",
)
@json_option
def pairs(model_name: str, rounds: int, json_file: Path | None) -> None:
    """What users' labels are worth: all applications run in pairs.

    Prints the matrix, the gain of schedules that follow the labels, and what
    the matrix says of each label.

    \b
    Examples:
      cosched sim symbiosis pairs
      cosched sim symbiosis pairs --rounds 8 --json pairs.json
    """
    check_writable(json_file)
    model = read_model(model_name)
    found = assess(model)
    checks = check_labels(model)
    ran = experiment(model, rounds)
    if json_file != Path("-"):
        click.echo(matrix_table(model))
        click.echo(assessment_table(found))
        click.echo(checks_table(checks), nl=False)
        for count, one in enumerate(ran, 1):
            click.echo(
                f"round {count}: {one.throughput - 1.0:+.1%}, estimates off by "
                f"{one.error:.1%} on average, labels refuted: {one.refuted}"
            )
    if json_file is not None:
        document = {
            "model": model_name,
            "assessment": asdict(found),
            "labels": [check.document() for check in checks],
            "rounds": [asdict(one) for one in ran],
        }
        _write(json_file, document)


STREAM_HELP = """\
Run streams of small and large jobs on nodes with two halves.

\b
Placements:
  whole    nodes of its own for each job: traditional space-sharing
  packed   the same, but two jobs of half a node may share one
  split    jobs limited by memory on top halves, all others on bottom halves
  labels   beside jobs of which nobody's label warns, symbiotic ones first
  anyhow   the same, but rather beside one that is warned of than not at all
  learned  as anyhow, by what was seen of the applications so far

Backfill is EASY. A stream is after the paper's: 100 jobs of half a node or of
four halves, at most twelve of them queued.

Printed are, for each placement: the makespan; the makespan of whole nodes, and
of packed ones, / this one; the speed of jobs against nodes of their own; and
the share of jobs that took longer than there. Means over the streams.

A TRACE is a log in the Standard Workload Format. Logs do not say what limits a
job, so each user's executable gets an application of the model by chance.

\b
Examples:
  cosched sim symbiosis stream --repeat 20
  cosched sim symbiosis stream KTH.swf.gz --skip-bad --placements whole,anyhow
  cosched sim symbiosis stream --placements whole,split --order fcfs
  cosched sim symbiosis stream --model datastar --save out --json out.json
"""


@symbiosis.command("stream", help=STREAM_HELP)
@click.argument(
    "trace", type=click.Path(path_type=Path), required=False, metavar="[TRACE.swf[.gz]]"
)
@model_option("npb")
@click.option(
    "--placements",
    callback=choose(NAMES),
    metavar="A,B",
    default=",".join(NAMES),
    show_default=True,
    help="One or several.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    metavar="N",
    help="Of the machine, with two halves each; by default 4, or what the log says.",
)
@click.option(
    "--jobs",
    "stream_jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Of each stream; by default 100.",
)
@click.option(
    "--large",
    type=click.IntRange(1),
    metavar="HALVES",
    help="Size of the large jobs; by default 4.",
)
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    default="largest",
    show_default=True,
    help="Who is considered first.",
)
@click.option(
    "--queue",
    "queue_limit",
    type=click.IntRange(1),
    metavar="N",
    help="Jobs that wait at a time, at most; by default 12, or all of a log.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="N",
    help="Streams: this seed and those after it.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of all chance.")
@click.option("--skip-bad", is_flag=True, help="Leave bad lines of the log out.")
@click.option(
    "--save",
    "save_in",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write each stream's jobs there, as npz and CSV.",
)
@json_option
def stream(
    trace: Path | None,
    model_name: str,
    placements: tuple[str, ...],
    nodes: int | None,
    stream_jobs: int | None,
    large: int | None,
    order: str,
    queue_limit: int | None,
    repeat: int,
    seed: int,
    skip_bad: bool,
    save_in: Path | None,
    json_file: Path | None,
) -> None:
    check_writable(json_file)
    model = read_model(model_name)
    if trace is not None and (stream_jobs or large):
        raise click.UsageError("--jobs and --large make streams; a log has its own jobs.")
    runs = [
        SharingRun(
            model=model,
            recipe=StreamRecipe(stream_jobs or 100, seed + count, large=large or 4),
            nodes=nodes or (0 if trace else 4),
            order=order,
            queue_limit=queue_limit or (sys.maxsize if trace else 12),
            placements=placements,
            trace=trace,
            skip_bad=skip_bad,
        )
        for count in range(repeat)
    ]
    with open_progress(sys.stderr, len(runs)) as heard:
        outcomes = carry_out_all(carry_out, runs, len(os.sched_getaffinity(0)), heard)
    words = shlex.join(["cosched", *sys.argv[1:]])
    files = [] if save_in is None else save(outcomes, save_in, words)
    if json_file != Path("-"):
        click.echo(stream_table(outcomes), nl=False)
    if json_file is not None:
        _write(
            json_file,
            {
                "model": model_name,
                "runs": [outcome.document() for outcome in outcomes],
                "files": [str(file) for file in files],
            },
        )


def _write(json_file: Path, document: dict[str, Any]) -> None:
    head = {
        "command": shlex.join(["cosched", *sys.argv[1:]]),
        "version": version("cosched"),
    }
    with writing(json_file) as out:
        json.dump({**head, **document}, out, indent=1)
        out.write("\n")
