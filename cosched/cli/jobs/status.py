"""``cosched status``: shows nodes, jobs, shares and switches."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from cosched.cli.declared import Command, argument, command
from cosched.cli.jobs.elsewhere import ask_elsewhere, elsewhere_option, way_to
from cosched.cli.options import (
    asked_run_dir_option,
    complete_jobs,
    json_option,
    nodes_option,
)
from cosched.lab.lab import describe_links
from cosched.lab.state import read_state
from cosched.observe.reach.on_nodes import merged
from cosched.observe.status import gather, no_daemons, nodes_of_job, render


@command("status")
class Status(Command):
    """Show the nodes of this machine and their jobs; with JOB, that job on its nodes.

    For each job: its state, its share of the CPUs, how long it was scheduled, switches,
    and requests granted and refused. In a lab also the rate of its links.

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

    def run(self) -> None:
        way = way_to(self.job, self.hosts, self.run_dir, self.nodes)
        if way is None:
            statuses = gather(self.run_dir, self.nodes)
        else:
            statuses = merged(ask_elsewhere(way, ["status"]), "nodes")
        if not statuses and not self.as_json:
            raise no_daemons(self.run_dir, os.geteuid())
        if self.job is not None:
            statuses = nodes_of_job(statuses, self.job)
        # A lab whose keepers have ended has no nodes.
        lab = read_state(self.run_dir) if way is None and statuses else None
        if self.as_json:
            links = {} if lab is None else {"rate_bits_per_s": lab.rate}
            click.echo(json.dumps({**links, "nodes": statuses}, indent=2))
            return
        click.echo(render(statuses))
        if lab is not None:
            click.echo(f"\n{describe_links(lab.rate)}")
