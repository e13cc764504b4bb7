"""``cosched report``: draws traces and bench results in one HTML file, or for Perfetto."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console
from rich.progress import track

from cosched.cli.files import check_writable, writing
from cosched.cli.options import asked_run_dir_option
from cosched.cli.printing import display_stream
from cosched.core.errors import CoschedError
from cosched.observe.report.contents import report_data
from cosched.observe.report.inputs import find_inputs
from cosched.observe.report.page import render_page
from cosched.observe.timeline.perfetto import perfetto
from cosched.observe.timeline.timeline import timelines
from cosched.observe.timeline.trace import Trace, read_trace


@click.command("report")
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE.html",
    help="The report.  [default: report.html, or none with --perfetto]",
)
@click.option(
    "--perfetto",
    "perfetto_file",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Write the traces for ui.perfetto.dev; no report without --out.",
)
@click.option("--title", default="cosched report", metavar="TEXT")
@asked_run_dir_option
@click.argument("inputs", nargs=-1, type=click.Path(path_type=Path), metavar="INPUT...")
def command(
    inputs: Sequence[Path],
    out: Path | None,
    perfetto_file: Path | None,
    title: str,
    run_dir: Path,
) -> None:
    """Draw which job each node ran when, how well the nodes agreed, and bench results.

    INPUT is a trace, a directory with traces (of a node, or a run directory), or a result
    of cosched bench --out. By default it is the run directory of this machine. The report
    is one file that needs no network.

    \b
    Examples:
      cosched report
      cosched report --out lab.html /run/cosched result.json
      cosched report --perfetto trace.json /run/cosched/lab1
    """
    found = find_inputs(inputs or [run_dir])
    if perfetto_file is not None and not found.traces:
        raise CoschedError("--perfetto: the inputs have no trace")
    if out is None and perfetto_file is None:
        out = Path("report.html")
    for path in (out, perfetto_file):
        check_writable(path)
    nodes = timelines(_read(found.traces))
    if perfetto_file is not None:
        with writing(perfetto_file) as stream:
            json.dump(perfetto(nodes), stream, separators=(",", ":"))
    if out is not None:
        with writing(out) as stream:
            stream.write(render_page(title, report_data(nodes, found.benches)))
    for path in (perfetto_file, out):
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
