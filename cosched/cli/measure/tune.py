"""``cosched tune``: finds the best slice and GMET for a workload."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click

from cosched.bench.run.interrupts import interruptible
from cosched.bench.run.processes import RunFailed
from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.tune.tune import ALIGN, TuneOptions, tune
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.files import check_writable, write_outcome, writing
from cosched.cli.options import (
    hosts_option,
    json_file_option,
    lab_nodes_option,
    run_dir_option,
    run_limit_option,
    set_with_option,
)
from cosched.cli.printing import display_stream
from cosched.cli.sim.calibrate import calibration_option
from cosched.core.config.kinds import Kind
from cosched.core.config.schema import MODES
from cosched.core.errors import CoschedError
from cosched.core.node.settings import GMET, SLICE, Settings, Span

HELP = """\
Find the best slice and GMET for a workload.

Runs the workload (a file as for cosched bench) many times: first with a few
settings far apart, then with settings near the good ones, then with the better
half of them again and again. The kernel alone and the default settings run for
comparison. The output is a map of mean responses and a recommendation: a
setting, the default, or not to coschedule this workload at all.

With --resume FILE an interrupted search continues where it stopped.

With --simulate the live scheduler runs on simulated nodes, in seconds. Run
'cosched sim calibrate' first; it measures how the programs communicate.

\b
Examples:
  cosched tune mine.toml
  cosched tune mine.toml --resume runs.jsonl --write cosched.toml
  cosched tune mine.toml --slices 0.5s,1s,2s --gmets 20ms,100ms --repeat 5
  cosched tune mine.toml --modes proportional,strict --figure map.png
  cosched tune mine.toml --simulate

Exit status: 0, or 1 if no setting ran to its end.
"""

_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command("tune", help=HELP)
@click.argument("workload", type=click.Path(path_type=Path), metavar="WORKLOAD.toml")
@click.option(
    "--slices", default="0.25s,0.5s,1s,2s,4s", metavar="TIMES", help="Slices to try."
)
@click.option(
    "--gmets",
    default="20ms,50ms,100ms,200ms,500ms",
    metavar="TIMES",
    help="GMETs to try, if below the slice.",
)
@click.option(
    "--modes",
    metavar="MODES",
    help="proportional,strict: try both; else the current.",
)
@click.option("--align", "aligns", default="on", help="on, off or both.")
@click.option(
    "--repeat", "repeats", type=click.IntRange(1), default=3, help="Runs of the finalists."
)
@click.option("--resume", type=_FILE, metavar="FILE", help="Keep finished runs in FILE.")
@click.option("--write", type=_FILE, metavar="FILE", help="The setting as a config file.")
@click.option("--figure", type=_FILE, metavar="FILE", help="Draw the map as PNG or SVG.")
@json_file_option("Also write everything to FILE, as JSON ('-': as --json).")
@lab_nodes_option
@hosts_option()
@set_with_option
@click.option("--mpi", metavar="MPI", help="As for cosched-run.")
@run_limit_option
@click.option("--simulate", is_flag=True, help="Simulate the nodes, in virtual time.")
@calibration_option
@run_dir_option
def command(
    workload: Path,
    slices: str,
    gmets: str,
    modes: str | None,
    aligns: str,
    repeats: int,
    resume: Path | None,
    write: Path | None,
    figure: Path | None,
    json_file: Path | None,
    nodes: int,
    hosts: tuple[str, ...],
    set_with: tuple[str, ...],
    mpi: str | None,
    run_limit: float,
    simulate: bool,
    calibration: Path | None,
    run_dir: Path,
) -> int:
    if calibration is not None and not simulate:
        raise click.UsageError("--calibration is for --simulate.")
    options = TuneOptions(
        workload=workload,
        testbed=TestbedOptions(
            run_dir=run_dir,
            nodes=nodes,
            hosts=hosts,
            mpi=mpi,
            limit_s=run_limit,
            set_with=set_with,
        ),
        slices=_times(slices, "--slices", SLICE),
        gmets=_times(gmets, "--gmets", GMET),
        modes=_words(modes, MODES, "--modes") if modes else (),
        aligns=ALIGN if aligns == "both" else _words(aligns, ALIGN, "--align"),
        repeats=repeats,
        resume=resume,
        command_line=tuple(sys.argv),
        simulate=simulate,
        calibration=calibration,
    )
    for turn in options.slices:
        Settings(slice_ns=turn.ns)
    check_writable(write, figure, json_file)
    draw = _drawer(figure)
    try:
        with interruptible():
            found = tune(options, os.environ, display_stream())
    except RunFailed as error:
        for line in error.failure.output:
            click.echo(f"  | {line}", err=True)
        raise
    write_outcome(json_file, found.text, found.document)
    if draw is not None and figure is not None:
        draw(found.document, figure)
    if write is not None:
        _write_config(found.config, write)
    return EXIT_FAILURE if found.failed else 0


def _write_config(config: str | None, path: Path) -> None:
    if config is None:
        click.echo(f"{path} is not written: there is nothing to set", err=True)
        return
    with writing(path) as stream:
        stream.write(config)
    click.echo(
        f"{path} is written; check it in with: cosched config check {path}", err=True
    )


def _times(text: str, option: str, kind: Kind[Span]) -> tuple[Span, ...]:
    found = tuple(kind.named(word, option) for word in text.split(","))
    if len(set(found)) != len(found):
        raise CoschedError(f"{option}: '{text}' names a time twice")
    return found


def _words(text: str, known: tuple[str, ...], option: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(","))
    for word in words:
        if word not in known:
            raise CoschedError(f"{option}: '{word}' is none of {', '.join(known)}")
    return tuple(dict.fromkeys(words))


def _drawer(figure: Path | None) -> Callable[[dict[str, object], Path], None] | None:
    """Returns the function that draws the map; raises CoschedError before the search."""
    if figure is None:
        return None
    try:
        from cosched.bench.tune.heatmap_figure import draw
    except ImportError as error:
        raise CoschedError("--figure needs matplotlib: pip install matplotlib") from error
    if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise CoschedError(f"--figure: '{figure}': name it .png, .svg or .pdf")
    return draw
