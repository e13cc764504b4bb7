"""``cosched tune``: finds the best slice and GMET for a workload."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from cosched.bench.run.testbed import TestbedOptions
from cosched.bench.tune.tune import ALIGN, TuneOptions, tune
from cosched.cli.declared import Command, argument, command, flag, option, part
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.files import check_writable, write_outcome, writing
from cosched.cli.hosts_option import hosts_option
from cosched.cli.measure.measuring import at_hand, lab_nodes_option, measuring
from cosched.cli.options import (
    FILE,
    PATH,
    json_file_option,
    mpi_option,
    run_dir_option,
    run_limit_option,
    set_with_option,
)
from cosched.cli.printing import display_stream
from cosched.cli.sim.options import calibration_option
from cosched.cli.values import Parsed, Whole, some_of
from cosched.core.config.kinds import Kind
from cosched.core.config.words import MODES
from cosched.core.errors import CoschedError
from cosched.core.node.settings import GMET, SLICE, Settings, Span


@command("tune")
class Tune(Command):
    """Find the best slice and GMET for a workload.

    Runs the workload (a file as for cosched bench) many times: first with a few
    settings far apart, then with settings near the good ones, then with the better
    half of them again and again. The kernel alone and the default settings run for
    comparison. The output is a map of mean responses and a recommendation: a
    setting, the default, or not to coschedule this workload at all.

    Without --hosts it uses the lab that is up, or makes one. A user without root runs the
    workload on this machine, as with --hosts localhost.

    With --resume FILE an interrupted search continues where it stopped.

    With --simulate the live scheduler runs on simulated nodes, in seconds. Run
    'cosched sim calibrate' first; it measures how the programs communicate. There are
    as many nodes as it ran on, or as --nodes names.

    \b
    Examples:
      cosched tune mine.toml
      cosched tune mine.toml --resume runs.jsonl --write cosched.toml
      cosched tune mine.toml --slices 0.5s,1s,2s --gmets 20ms,100ms --repeat 5
      cosched tune mine.toml --modes proportional,strict --figure map.png
      cosched tune mine.toml --simulate

    Exit status: 0, or 1 if no setting ran to its end.
    """

    options: TuneOptions = part(
        TuneOptions,
        workload=argument(type=PATH, metavar="WORKLOAD.toml"),
        slices=option(
            type=Parsed("TIMES", lambda text, what: _times(text, what, SLICE)),
            default="0.25s,0.5s,1s,2s,4s",
            help="Slices to try.",
        ),
        gmets=option(
            type=Parsed("TIMES", lambda text, what: _times(text, what, GMET)),
            default="20ms,50ms,100ms,200ms,500ms",
            help="GMETs to try, if below the slice.",
        ),
        modes=option(
            type=some_of(MODES, "MODES"),
            help="proportional,strict: try both; otherwise the current one.",
        ),
        aligns=option(
            "--align",
            type=click.Choice([*ALIGN, "both"]),
            default="on",
            callback=lambda _, __, word: ALIGN if word == "both" else (word,),
            help="Align slices or not, or try both.",
        ),
        repeats=option("--repeat", type=Whole(1), help="Runs of the finalists."),
        resume=option(type=FILE, metavar="FILE", help="Keep finished runs in FILE."),
        testbed=part(
            TestbedOptions,
            nodes=lab_nodes_option(),
            hosts=hosts_option(),
            set_with=set_with_option(),
            mpi=mpi_option(),
            limit_s=run_limit_option(),
            run_dir=run_dir_option(),
        ),
        simulate=flag(help="Simulate the nodes, in virtual time."),
        calibration=calibration_option(),
    )
    write: Path | None = option(
        type=FILE, metavar="FILE", help="The setting as a config file."
    )
    figure: Path | None = option(
        type=FILE, metavar="FILE", help="Draw the map as PNG, SVG or PDF; needs matplotlib."
    )
    json_file: Path | None = json_file_option(
        "Also write everything to FILE, as JSON ('-': as --json)."
    )

    def __post_init__(self) -> None:
        if self.options.calibration is not None and not self.options.simulate:
            raise click.UsageError("--calibration is for --simulate.")

    def run(self) -> int:
        options = replace(self.options, command_line=tuple(sys.argv))
        if not options.simulate:
            options = replace(options, testbed=at_hand(options.testbed, options.workload))
        for turn in options.slices:
            Settings(slice_ns=turn.ns)
        check_writable(self.write, self.figure, self.json_file)
        draw = _drawer(self.figure)
        with measuring(options.resume):
            found = tune(options, os.environ, display_stream())
        write_outcome(self.json_file, found.text, found.document)
        if draw is not None and self.figure is not None:
            draw(found.document, self.figure)
        if self.write is not None:
            _write_config(found.config, self.write)
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


def _drawer(figure: Path | None) -> Callable[[dict[str, object], Path], None] | None:
    """Returns the function that draws the map; raises CoschedError before the search."""
    if figure is None:
        return None
    if figure.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise CoschedError(f"--figure: '{figure}': name it .png, .svg or .pdf")
    try:
        from cosched.bench.tune.heatmap_figure import draw
    except ImportError as error:
        raise CoschedError("--figure needs matplotlib: pip install matplotlib") from error
    return draw
