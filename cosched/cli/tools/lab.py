"""``cosched lab``: makes virtual nodes on this machine."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import argument, flag, option, takes
from cosched.cli.groups import Group
from cosched.cli.options import json_option, run_dir_option
from cosched.core.errors import CoschedError
from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import format_cpu_list, plan_crowded_nodes, plan_nodes


@click.group("lab", cls=Group)
def command() -> None:
    """Make virtual nodes on this machine: lab1, lab2, ...

    Each node has its own host name, network address, CPUs and daemons. All nodes use
    the machine's files. Needs root.

    \b
    Examples:
      cosched lab up --nodes 2
      cosched lab exec lab1 hostname
      cosched-run --hosts lab1,lab2 -n 2 ./app
      cosched lab down
    """


@dataclass(frozen=True)
class Up:
    """Make a lab and start the daemons of its nodes.

    \b
    Examples:
      cosched lab up --nodes 2
      cosched lab up --nodes 2 --cores-per-node 4
      cosched lab up --nodes 8 --share-cpus
    """

    nodes: int = option(type=int, required=True, help="How many.")
    cores_per_node: int = option(
        type=int, default=1, help="CPUs of this machine for each node alone."
    )
    share_cpus: bool = flag(
        help="Let nodes share CPUs, so that there can be more of them than CPUs. Times that"
        " are measured on them mean little."
    )
    no_daemons: bool = flag(help="Do not start the nodes' daemons.")
    run_dir: Path = run_dir_option()
    as_json: bool = json_option()


@command.command()
@takes(Up)
def up(given: Up) -> None:
    plan = plan_crowded_nodes if given.share_cpus else plan_nodes
    planned = plan(given.nodes, given.cores_per_node, life.usable_siblings())
    lab = life.make_lab(given.run_dir, planned, daemons=not given.no_daemons)
    _show(lab, given.as_json)


@dataclass(frozen=True)
class Down:
    """End the lab and every process in it.

    \b
    Example:
      cosched lab down
    """

    run_dir: Path = run_dir_option()


@command.command()
@takes(Down)
def down(given: Down) -> None:
    if not life.down(given.run_dir):
        click.echo("no lab is up", err=True)


@dataclass(frozen=True)
class Status:
    """List the nodes.

    \b
    Examples:
      cosched lab status
      cosched lab status --json
    """

    run_dir: Path = run_dir_option()
    as_json: bool = json_option()


@command.command()
@takes(Status)
def status(given: Status) -> None:
    lab = Lab.load(given.run_dir)
    if lab is None and not given.as_json:
        click.echo("no lab is up; make one with: cosched lab up --nodes 2")
    else:
        _show(lab, given.as_json)


@dataclass(frozen=True)
class Exec:
    """Run CMD inside NODE, in this directory, and return its exit status.

    \b
    Examples:
      cosched lab exec lab1 hostname
      cosched lab exec lab2 ./app --preset tiny
    """

    run_dir: Path = run_dir_option()
    node: str = argument()
    words: tuple[str, ...] = argument(metavar="CMD...", nargs=-1, type=click.UNPROCESSED)


@command.command("exec", context_settings={"allow_interspersed_args": False})
@takes(Exec)
def exec_(given: Exec) -> None:
    words = given.words[1:] if given.words[:1] == ("--",) else given.words
    if not words:
        raise click.UsageError("Missing CMD.")
    lab = Lab.load(given.run_dir)
    if lab is None:
        raise CoschedError("no lab is up: make one with 'cosched lab up --nodes 2'")
    lab.exec(given.node, words)


def _show(lab: Lab | None, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_plain(lab)))
    elif lab is not None:
        for node in lab.nodes:
            cpus = format_cpu_list(node.cpus)
            click.echo(f"{node.name:<7} {node.address:<12} CPUs {cpus}")
        if lab.shares_cpus:
            click.echo("The nodes share CPUs: times that are measured on them mean little.")


def _plain(lab: Lab | None) -> dict[str, Any]:
    if lab is None:
        return {"nodes": []}
    return {
        "network": lab.network,
        "agent": str(lab.agent),
        "shares_cpus": lab.shares_cpus,
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "cpus": list(node.cpus),
                "keeper_pid": node.keeper_pid,
            }
            for node in lab.nodes
        ],
    }
