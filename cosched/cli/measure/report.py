"""``cosched report``: draws traces and results in one HTML file, or for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from cosched.cli.declared import Command, argument, command, option
from cosched.cli.files import check_writable, writing
from cosched.cli.options import PATH, asked_run_dir_option
from cosched.cli.printing import display_stream
from cosched.core.errors import CoschedError
from cosched.observe.report.contents import report_data
from cosched.observe.report.inputs import find_inputs
from cosched.observe.report.page import render_page
from cosched.observe.timeline.perfetto import perfetto
from cosched.observe.timeline.timeline import timelines
from cosched.observe.timeline.trace import Trace, read_trace


@command("report")
class Report(Command):
    """Draw which job each node ran when, how well the nodes agreed, and results.

    INPUT is a trace, a directory with traces (of a node, or a run directory), or a result:
    of cosched bench, demo, sim queue or sim share with --out. By default it is the run
    directory of this machine. The report is one file that needs no network.

    \b
    Examples:
      cosched report
      cosched report --out lab.html /run/cosched result.json
      cosched report queues.json
      cosched report --perfetto trace.json /run/cosched/lab1
    """

    out: Path | None = option(
        "-o",
        "--out",
        type=PATH,
        metavar="FILE.html",
        help="The report.  [default: report.html, or none with --perfetto]",
    )
    perfetto: Path | None = option(
        type=PATH,
        metavar="FILE.json",
        help="Write the traces for ui.perfetto.dev; no report without --out.",
    )
    title: str = option(
        default="cosched report", metavar="TEXT", help="The report's heading."
    )
    run_dir: Path = asked_run_dir_option()
    inputs: tuple[Path, ...] = argument(nargs=-1, type=PATH, metavar="INPUT...")

    def run(self) -> None:
        found = find_inputs(self.inputs or [self.run_dir])
        if self.perfetto is not None and not found.traces:
            raise CoschedError("--perfetto: the inputs have no trace")
        out = self.out
        if out is None and self.perfetto is None:
            out = Path("report.html")
        check_writable(out, self.perfetto)
        nodes = timelines(_read(found.traces))
        if self.perfetto is not None:
            with writing(self.perfetto) as stream:
                json.dump(perfetto(nodes), stream, separators=(",", ":"))
        if out is not None:
            data = report_data(nodes, found.benches, found.simulations)
            with writing(out) as stream:
                stream.write(render_page(self.title, data))
        for path in (self.perfetto, out):
            if path not in (None, Path("-")):
                click.echo(f"{path}")


def _read(paths: Sequence[Path]) -> Iterator[Trace]:
    """Reads the traces; shows the progress on a terminal."""
    console = Console(file=display_stream())
    shown = track(
        paths,
        "reading traces",
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    return (read_trace([path]) for path in shown)
