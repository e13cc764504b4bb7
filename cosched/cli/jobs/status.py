"""``cosched status``: shows nodes, jobs, shares and switches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from cosched.cli.jobs.elsewhere import ask_elsewhere, elsewhere_option, way_to
from cosched.cli.options import (
    asked_run_dir_option,
    complete_jobs,
    json_option,
    nodes_option,
)
from cosched.observe.reach.asking import merged
from cosched.observe.status import gather, no_daemons, nodes_of_job, render


@click.command("status")
@click.argument("job", required=False, shell_complete=complete_jobs)
@asked_run_dir_option
@nodes_option
@elsewhere_option
@json_option
def command(
    job: str | None,
    run_dir: Path,
    nodes: tuple[str, ...],
    hosts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show the nodes of this machine and their jobs; with JOB, that job on its nodes.

    For each job: its state, its share of the CPUs, how long it was scheduled, switches,
    and requests granted and refused.

    \b
    Examples:
      cosched status
      cosched status --node lab1 --json
      cosched status app-1234-x7k2p
      cosched status --hosts 'n[1-4]'
    """
    way = None if nodes else way_to(job, hosts, run_dir)
    if way is None:
        statuses = gather(run_dir, nodes)
    else:
        statuses = merged(ask_elsewhere(way, ["status"]), "nodes")
    if not statuses and not as_json:
        raise no_daemons(run_dir, os.geteuid())
    if job is not None:
        statuses = nodes_of_job(statuses, job)
    click.echo(json.dumps({"nodes": statuses}, indent=2) if as_json else render(statuses))
