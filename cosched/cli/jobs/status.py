"""``cosched status``: shows nodes, jobs, shares and switches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from cosched.cli.options import asked_run_dir_option, json_option, nodes_option
from cosched.observe.status import gather, no_daemons, render


@click.command("status")
@asked_run_dir_option
@nodes_option
@json_option
def command(run_dir: Path, nodes: tuple[str, ...], as_json: bool) -> None:
    """Show the nodes of this machine and their jobs.

    For each job: its state, its share of the CPUs, how long it was scheduled, switches,
    and requests granted and refused.

    \b
    Examples:
      cosched status
      cosched status --node lab1 --json
    """
    statuses = gather(run_dir, nodes)
    if not statuses and not as_json:
        raise no_daemons(run_dir, os.geteuid())
    click.echo(json.dumps({"nodes": statuses}, indent=2) if as_json else render(statuses))
