"""``cosched status``: shows nodes, jobs, shares and switches."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import click

from cosched.cli.declared import argument, takes
from cosched.cli.jobs.elsewhere import ask_elsewhere, elsewhere_option, way_to
from cosched.cli.options import (
    asked_run_dir_option,
    complete_jobs,
    json_option,
    nodes_option,
)
from cosched.observe.reach.asking import merged
from cosched.observe.status import gather, no_daemons, nodes_of_job, render


@dataclass(frozen=True)
class Given:
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

    job: str | None = argument(required=False, shell_complete=complete_jobs)
    run_dir: Path = asked_run_dir_option()
    nodes: tuple[str, ...] = nodes_option()
    hosts: tuple[str, ...] = elsewhere_option()
    as_json: bool = json_option()


@click.command("status")
@takes(Given)
def command(given: Given) -> None:
    way = None if given.nodes else way_to(given.job, given.hosts, given.run_dir)
    if way is None:
        statuses = gather(given.run_dir, given.nodes)
    else:
        statuses = merged(ask_elsewhere(way, ["status"]), "nodes")
    if not statuses and not given.as_json:
        raise no_daemons(given.run_dir, os.geteuid())
    if given.job is not None:
        statuses = nodes_of_job(statuses, given.job)
    text = json.dumps({"nodes": statuses}, indent=2) if given.as_json else render(statuses)
    click.echo(text)
