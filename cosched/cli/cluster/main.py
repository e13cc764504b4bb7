"""``cosched cluster``: starts, ends and inspects a domain."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import click

from cosched.cli.cluster import coupled
from cosched.cli.groups import Group
from cosched.cli.options import (
    any_run_dir_option,
    domain_dir_option,
    hosts_option,
    json_option,
    run_dir_option,
)
from cosched.cluster.paths import DomainPaths
from cosched.config.domain import (
    LEAST_UID,
    PORT,
    DomainConfig,
    QueueSettings,
    SecuritySettings,
    load_config,
)
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.identity import ROOT


@click.group("cluster", cls=Group)
def command() -> None:
    """Run a domain: a queue of jobs, and an agent on each node.

    One controller queues the jobs. The agents start their tasks. Jobs are sent with
    cosched submit. Without a domain, cosched submit starts a private one.

    \b
    Examples:
      cosched cluster up
      cosched cluster up --lab
      cosched cluster up --hosts n1,n2,n3 --jobs-per-node 2
      cosched cluster status
      cosched cluster drain n3 --reason "new disk"
      cosched cluster reload
      cosched cluster couple --config domain.toml
      cosched cluster down
    """


@command.command()
@hosts_option("The nodes; a remote shell starts their agents.")
@click.option("--lab", "in_lab", is_flag=True, help="The nodes of the lab that is up.")
@click.option(
    "--shell",
    default="ssh -o BatchMode=yes",
    help="The remote shell; the host and the command follow.",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A domain.toml; its nodes must be those that are started.",
)
@click.option(
    "--jobs-per-node",
    type=click.IntRange(1),
    default=1,
    help="How many jobs may share a node; cosched's daemons coschedule them.",
)
@click.option(
    "--slots",
    type=click.IntRange(0),
    default=0,
    help="The tasks of a job that a node takes; 0: one for each CPU.",
)
@click.option("--queue", "policy", type=click.Choice(list(POLICIES)), default="easy")
@click.option(
    "--port",
    type=click.IntRange(1, 65534),
    help="The controller's; agents have the next one."
    f"  [default: {PORT}, on one machine free ones]",
)
@run_dir_option
def up(
    hosts: tuple[str, ...],
    in_lab: bool,
    shell: str,
    config: Path | None,
    jobs_per_node: int,
    slots: int,
    policy: str,
    port: int | None,
    run_dir: Path,
) -> None:
    """Start a controller, and an agent on each node.

    Inside a Slurm allocation srun starts the agents, one on each of its nodes. Otherwise,
    without --hosts and --lab, this machine is the only node. The controller runs on the
    first node, in an allocation on this machine. All read the same run directory.

    \b
    Examples:
      cosched cluster up
      cosched cluster up --lab --jobs-per-node 3
      cosched cluster up --hosts n1,n2 --queue fcfs
    """
    from cosched.cli.cluster.site import hosts_site, lab_site, site_here

    if hosts and in_lab:
        raise click.UsageError("--hosts and --lab cannot be combined.")
    if in_lab:
        site = lab_site(run_dir, port)
    elif hosts:
        site = hosts_site(hosts, shell, port)
    else:
        site = site_here(port)
    wanted = DomainConfig(
        run_dir.name,
        site.controller,
        site.nodes,
        slots,
        QueueSettings(policy=policy, jobs_per_node=jobs_per_node),
        security=SecuritySettings(site.root_from, _least_uid(os.geteuid())),
    )
    if config is not None:
        wanted = replace(
            load_config(config), controller=site.controller, nodes=wanted.nodes
        )
    site.start(run_dir, wanted)
    count = len(site.nodes)
    names = ", ".join(site.nodes) if count <= 4 else f"{count} nodes"
    click.echo(f"domain {wanted.name} is up: {names}")


def _least_uid(euid: int) -> int:
    """Returns the setting for a domain of this user, whose jobs all agents pass on."""
    return LEAST_UID if euid == ROOT else min(LEAST_UID, euid)


@command.command()
@click.option("--end-jobs", is_flag=True, help="End the jobs that run.")
@any_run_dir_option
def down(end_jobs: bool, run_dir: Path) -> None:
    """End the agents and the controller.

    Jobs that wait stay stored until the domain is up again. If the controller was killed on
    this machine, it is started again for the end.

    \b
    Example:
      cosched cluster down --end-jobs
    """
    from cosched.cli.connection import patient
    from cosched.cluster.client import NoDomain
    from cosched.cluster.up.domain import stop_domain

    try:
        ended = stop_domain(
            DomainPaths(run_dir), _node(), end_jobs=end_jobs, patience=patient()
        )
    except NoDomain:
        click.echo("no domain is up", err=True)
        return
    if ended:
        click.echo(f"ended jobs {', '.join(map(str, ended))}")


@command.command()
@domain_dir_option
@json_option
def status(run_dir: Path, as_json: bool) -> None:
    """List the nodes and their jobs.

    \b
    Examples:
      cosched cluster status
      cosched cluster status --json
    """
    from cosched.cli.connection import connect

    with connect(run_dir) as client:
        nodes = client.nodes()
    if as_json:
        click.echo(json.dumps({"nodes": nodes}))
        return
    from cosched.tables import table

    rows = [
        (
            node["node"],
            node["state"],
            str(node["slots"]),
            " ".join(map(str, node["jobs"])) or "-",
            node["reason"],
        )
        for node in nodes
    ]
    click.echo(
        "\n".join(table(("node", "state", "slots", "jobs", "reason"), rows, "<<><<"))
    )


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@click.option("--reason", default="", help="Shown by cosched cluster status.")
@domain_dir_option
def drain(names: tuple[str, ...], reason: str, run_dir: Path) -> None:
    """Keep new jobs away from nodes; their jobs run on.

    \b
    Example:
      cosched cluster drain n3 --reason "new disk"
    """
    from cosched.cli.connection import connect

    with connect(run_dir) as client:
        client.drain(names, reason)


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@domain_dir_option
def undrain(names: tuple[str, ...], run_dir: Path) -> None:
    """Let jobs start on nodes again.

    \b
    Example:
      cosched cluster undrain n3
    """
    from cosched.cli.connection import connect

    with connect(run_dir) as client:
        client.undrain(names)


@command.command()
@domain_dir_option
def reload(run_dir: Path) -> None:
    """Let the controller read domain.toml again.

    It takes these settings at once: queue.policy, queue.jobs_per_node,
    queue.default_time, queue.grace, life.lost_after, life.prepare, security.root_from,
    security.least_uid, and [coupling] without listen, domains and metrics. Jobs that run
    or wait keep their limits. All other settings need a restart. A file with a mistake
    changes nothing. A controller that gets SIGHUP does the same.

    \b
    Example:
      cosched cluster reload
    """
    from cosched.cli.connection import connect

    with connect(run_dir) as client:
        click.echo(client.reload()["text"])


@command.command()
@run_dir_option
def keygen(run_dir: Path) -> None:
    """Make the keys that the members of domain.toml lack.

    Each machine needs its own NAME.secret and all NAME.public files. A domain that is
    coupled with others has one more pair of keys, in RUN_DIR/domain/peers.

    \b
    Example:
      cosched cluster keygen
    """
    from cosched.cluster.keys import make_keys
    from cosched.config.slurm import is_coupled, load_coupled

    paths = DomainPaths(run_dir)
    wanted: dict[Path, tuple[str, ...]] = {}
    if is_coupled(paths.config):
        wanted[paths.peers] = (load_coupled(paths.config).name,)
    else:
        config = load_config(paths.config)
        wanted[paths.keys] = config.members
        if config.coupling:
            wanted[paths.peers] = (config.name,)
    for folder, names in wanted.items():
        click.echo(f"{len(make_keys(folder, names))} keys made in {folder}")


for _each in (coupled.couple, coupled.gate, coupled.task_prolog, coupled.mates):
    command.add_command(_each)


def _node() -> str | None:
    return os.environ.get("COSCHED_NODE")
