"""``cosched lab``: makes virtual nodes on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import Command, argument, command, flag, option
from cosched.cli.groups import Group
from cosched.cli.options import json_option, rate_option, run_dir_option
from cosched.core.errors import CoschedError
from cosched.core.node.division import format_cpus
from cosched.lab import life
from cosched.lab.lab import Lab, describe_links
from cosched.lab.plan import plan_crowded_nodes, plan_nodes
from cosched.linux.cpu_surroundings import usable_siblings


@click.group("lab", cls=Group)
def lab() -> None:
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


@command("up", of=lab)
class Up(Command):
    """Make a lab and start the daemons of its nodes.

    \b
    Examples:
      cosched lab up --nodes 2
      cosched lab up --nodes 2 --cores-per-node 4
      cosched lab up --nodes 8 --share-cpus
      cosched lab up --nodes 2 --rate 1gbit
    """

    nodes: int = option(type=int, default=2, metavar="N", help="How many.")
    cores_per_node: int = option(
        type=int, default=1, metavar="N", help="CPUs of this machine for each node alone."
    )
    share_cpus: bool = flag(
        help="Let nodes share CPUs, so that there can be more of them than CPUs. Times that"
        " are measured on them mean little."
    )
    rate: int | None = rate_option()
    no_daemons: bool = flag(help="Do not start the nodes' daemons.")
    run_dir: Path = run_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        life.check_not_up(self.run_dir)
        plan = plan_crowded_nodes if self.share_cpus else plan_nodes
        planned = plan(self.nodes, self.cores_per_node, usable_siblings())
        lab = life.make_lab(self.run_dir, planned, not self.no_daemons, self.rate)
        _show(lab, self.as_json)
        if life.is_beside_another(lab):
            click.echo(
                "Another lab has some of these CPUs, too: times that are measured on them "
                "mean little.",
                err=True,
            )


@command("down", of=lab)
class Down(Command):
    """End the lab and every process in it.

    \b
    Example:
      cosched lab down
    """

    run_dir: Path = run_dir_option()

    def run(self) -> None:
        if life.down(self.run_dir):
            click.echo("the lab is down")
        else:
            click.echo("no lab is up", err=True)


@command("status", of=lab)
class Status(Command):
    """List the nodes.

    \b
    Examples:
      cosched lab status
      cosched lab status --json
    """

    run_dir: Path = run_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        lab = Lab.load(self.run_dir)
        if lab is None and not self.as_json:
            click.echo("no lab is up; make one with: cosched lab up --nodes 2")
        else:
            _show(lab, self.as_json)


@command("exec", of=lab, context_settings={"allow_interspersed_args": False})
class Exec(Command):
    """Run CMD inside NODE, in this directory, and return its exit status.

    \b
    Examples:
      cosched lab exec lab1 hostname
      cosched lab exec lab2 ./app --preset tiny
    """

    run_dir: Path = run_dir_option()
    node: str = argument()
    words: tuple[str, ...] = argument(metavar="CMD...", nargs=-1, type=click.UNPROCESSED)

    def run(self) -> None:
        words = self.words[1:] if self.words[:1] == ("--",) else self.words
        if not words:
            raise click.UsageError("Missing CMD.")
        lab = Lab.load(self.run_dir)
        if lab is None:
            raise CoschedError("no lab is up: make one with 'cosched lab up --nodes 2'")
        lab.exec(self.node, words)


def _show(lab: Lab | None, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_plain(lab), indent=2))
    elif lab is not None:
        for node in lab.nodes:
            cpus = format_cpus(node.cpus)
            click.echo(f"{node.name:<7} {node.address:<12} CPUs {cpus}")
        click.echo(describe_links(lab.rate))
        if lab.shares_cpus:
            click.echo("The nodes share CPUs: times that are measured on them mean little.")


def _plain(lab: Lab | None) -> dict[str, Any]:
    if lab is None:
        return {"nodes": []}
    return {
        "network": lab.network,
        "agent": str(lab.agent),
        "shares_cpus": lab.shares_cpus,
        "rate_bits_per_s": lab.rate,
        "nodes": [
            {
                "name": node.name,
                "address": node.address,
                "cpus": list(node.cpus),
                "keeper_pid": node.keeper.pid,
            }
            for node in lab.nodes
        ],
    }
