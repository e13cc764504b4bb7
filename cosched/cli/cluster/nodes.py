"""``cosched cluster status``, ``drain``, ``undrain`` and ``reload``: the nodes of a domain
that is up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cosched.cli.connection import NO_ANSWER_YET, UNTIL_NODES_ARE_FREE, connect
from cosched.cli.declared import Command, argument, command, flag, option
from cosched.cli.options import domain_dir_option, json_option
from cosched.cluster.client import Client
from cosched.cluster.job_texts import jobs_text
from cosched.tables import table

if TYPE_CHECKING:
    from cosched.cluster.answers import NodeInfo


@command("status")
class Status(Command):
    """List the nodes and their jobs.

    \b
    Examples:
      cosched cluster status
      cosched cluster status --json
    """

    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        with connect(self.run_dir) as client:
            nodes = client.nodes()
        if self.as_json:
            click.echo(json.dumps({"nodes": nodes}))
            return
        rows = [
            (
                node["node"],
                node["state"],
                str(node["slots"]),
                ", ".join(map(str, node["jobs"])) or "-",
                node["reason"],
            )
            for node in nodes
        ]
        head = ("node", "state", "slots", "job numbers", "reason")
        click.echo("\n".join(table(head, rows, "<<><<")))


@command("undrain")
class Undrain(Command):
    """Let jobs start on nodes again.

    \b
    Example:
      cosched cluster undrain n3
    """

    names: tuple[str, ...] = argument(nargs=-1, required=True, metavar="NODE...")
    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        with connect(self.run_dir) as client:
            client.undrain(self.names)
            for node in _named(client, self.names):
                state = "" if node["state"] == "up" else f"; it is {node['state']}"
                click.echo(f"undrained {node['node']}{state}")


@command("drain")
class Drain(Undrain):
    """Keep new jobs away from nodes; their jobs run on.

    \b
    Examples:
      cosched cluster drain n3 --reason "new disk"
      cosched cluster drain n3 --reason upgrade --wait
    """

    reason: str = option(
        default="", show_default=False, help="Shown by cosched cluster status."
    )
    wait: bool = flag(help="Wait until no job is on the nodes.")

    def run(self) -> None:
        slow = UNTIL_NODES_ARE_FREE if self.wait else NO_ANSWER_YET
        with connect(self.run_dir, slow=slow) as client:
            client.drain(self.names, self.reason, wait=self.wait)
            for node in _named(client, self.names):
                click.echo(_drained_line(node))


def _named(client: Client, names: Sequence[str]) -> list[NodeInfo]:
    return [node for node in client.nodes() if node["node"] in names]


def _drained_line(node: NodeInfo) -> str:
    """Returns one line about a node that was drained, as it is now."""
    name, state, jobs = node["node"], node["state"], node["jobs"]
    if state not in ("draining", "drained"):
        return f"drained {name}; it is {state}"
    runs = "runs" if len(jobs) == 1 else "run"
    return f"{state} {name}" + (f": {jobs_text(jobs)} still {runs}" if jobs else "")


@command("reload")
class Reload(Command):
    """Let the controller read domain.toml again.

    It takes these settings at once: [nodes], queue.policy, queue.jobs_per_node,
    queue.default_time, queue.grace, [queue.changes], life.lost_after, life.prepare,
    security.root_from, security.least_uid, symbiosis.wrong_runs,
    symbiosis.share_up_to, symbiosis.slowed_most, and [coupling] without listen,
    domains and metrics. Jobs that run or wait keep their limits. All other settings need
    a restart of the controller, of the agents or of both; the command names them. A file
    with a mistake changes nothing. A controller that gets SIGHUP does the same.

    \b
    Example:
      cosched cluster reload
    """

    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        with connect(self.run_dir) as client:
            click.echo(client.reload()["text"])
