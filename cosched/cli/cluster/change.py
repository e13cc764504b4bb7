"""``cosched cluster add`` and ``remove``: nodes of a domain that is up."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from cosched.cli.cluster.site import lab_places
from cosched.cli.connection import NO_ANSWER_YET, UNTIL_NODES_ARE_FREE, connect
from cosched.cli.declared import Command, argument, command, flag, option
from cosched.cli.hosts_option import hosts_option
from cosched.cli.options import domain_dir_option
from cosched.cli.values import Whole
from cosched.cluster.client import Client
from cosched.cluster.job_texts import jobs_text
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import await_end, wait_joined
from cosched.cluster.up.members import start_agent
from cosched.cluster.up.nodes import DomainNode, host_nodes
from cosched.config.domain import load_config
from cosched.core.decoding import parse_address
from cosched.core.errors import CoschedError

_TO_COPY = """\
{names}: in the domain now; start the agents.
Each node NAME needs, in {folder}:
  domain.toml
  keys/controller.public, keys/NAME.public, keys/NAME.secret (mode 0600)
Then run there: cosched-agent --run-dir {run_dir} --node NAME"""


@command("add")
class Add(Command):
    """Add nodes to a domain that is up.

    Jobs run on, and others start on the new nodes once their agents have joined. With
    --hosts or --lab this command starts the agents. Nodes that are named with their
    addresses get keys, and you start their agents. domain.toml gets the new nodes.

    \b
    Examples:
      cosched cluster add --hosts n4,n5
      cosched cluster add n4=n4:7571
    """

    nodes: tuple[str, ...] = argument(nargs=-1, metavar="[NODE=HOST:PORT]...")
    hosts: tuple[str, ...] = hosts_option("The nodes; a remote shell starts their agents.")
    in_lab: bool = flag("--lab", help="The nodes of the lab that the domain lacks.")
    shell: str = option(
        default="ssh -o BatchMode=yes",
        help="The remote shell; the host and the command follow.",
    )
    #: None: that of the other agents.
    port: int | None = option(
        type=Whole(1, 65535),
        help="That of the new agents.  [default: as the other agents]",
    )
    run_dir: Path = domain_dir_option()

    def __post_init__(self) -> None:
        if sum(map(bool, (self.nodes, self.hosts, self.in_lab))) != 1:
            raise click.UsageError("Name nodes with their addresses, or --hosts, or --lab.")

    def run(self) -> None:
        paths = DomainPaths(self.run_dir)
        with connect(self.run_dir) as client:
            if self.nodes:
                named = _named(self.nodes)
                client.add(named)
                names = ", ".join(named)
                folder, run_dir = paths.directory, paths.run_dir
                click.echo(_TO_COPY.format(names=names, folder=folder, run_dir=run_dir))
                return
            places = self._places(paths)
            client.add({place.name: place.address for place in places}, root=self.in_lab)
            _start(paths, places, client)
        click.echo(f"added {', '.join(place.name for place in places)}")

    def _places(self, paths: DomainPaths) -> Sequence[DomainNode]:
        """Returns the new nodes. Raises CoschedError if there are none."""
        nodes = load_config(paths.config).nodes
        port = self.port or parse_address(next(iter(nodes.values())))[1]
        if self.hosts:
            return host_nodes(self.hosts, port, self.shell)
        in_lab = lab_places(paths.run_dir, port)
        places = [place for place in in_lab if place.name not in nodes]
        if not places:
            raise CoschedError(
                "the domain has all nodes of the lab; killed ones come back with: cosched "
                "cluster up --lab"
            )
        return places


def _named(words: Sequence[str]) -> dict[str, str]:
    """Returns addresses by name. Raises UsageError for a word that is none."""
    nodes: dict[str, str] = {}
    for word in words:
        name, found, address = word.partition("=")
        if not found:
            raise click.UsageError(f"{word}: write NODE=HOST:PORT")
        if name in nodes:
            raise click.UsageError(f"node {name}: is named twice")
        nodes[name] = address
    return nodes


def _start(paths: DomainPaths, places: Sequence[DomainNode], client: Client) -> None:
    """Starts the agents of new nodes, and waits until they have joined. Removes the nodes
    again if one fails."""
    names = [place.name for place in places]
    with ExitStack() as undo:
        undo.callback(client.remove, names, now=True)
        agents = []
        for place in places:
            await_end(paths, place.name)
            agent = start_agent(place, paths)
            undo.callback(agent.end)
            agents.append(agent)
        for agent in agents:
            agent.wait_ready()
        wait_joined(paths, names)
        undo.pop_all()
    for agent in agents:
        agent.leave()


@command("remove")
class Remove(Command):
    """Remove nodes from a domain that is up.

    They get no more jobs, and go when theirs have ended; malleable jobs give them back.
    Then their agents end. domain.toml loses the nodes.

    \b
    Examples:
      cosched cluster remove n4
      cosched cluster remove n4 n5 --now
    """

    names: tuple[str, ...] = argument(nargs=-1, required=True, metavar="NODE...")
    now: bool = flag(help="End their jobs, with 'node lost'.")
    wait: bool = flag(help="Wait until the nodes are removed.")
    run_dir: Path = domain_dir_option()

    def run(self) -> None:
        slow = UNTIL_NODES_ARE_FREE if self.wait else NO_ANSWER_YET
        with connect(self.run_dir, slow=slow) as client:
            jobs = client.remove(self.names, now=self.now, wait=self.wait)
        names = ", ".join(self.names)
        if self.wait or not jobs:
            click.echo(f"removed {names}")
        elif self.now:
            click.echo(f"{names}: ended {jobs_text(jobs)}; to be removed at once")
        else:
            click.echo(f"{names}: to be removed after {jobs_text(jobs)}")
