"""``cosched cluster up``, ``down`` and ``keygen``: starts and ends a domain."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import click

from cosched.cli.cluster.site import (
    Site,
    check_growth,
    hosts_site,
    lab_nodes,
    lab_site,
    site_here,
)
from cosched.cli.connection import patient
from cosched.cli.declared import Command, command, flag, is_given, option, part
from cosched.cli.hosts_option import hosts_option
from cosched.cli.options import any_run_dir_option, run_dir_option
from cosched.cli.values import DOMAIN_TOML, NODES, SECONDS, Whole
from cosched.cluster.client import NoDomain
from cosched.cluster.job_texts import jobs_text
from cosched.cluster.keys import make_keys, without_secret
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import other_settings, stop_domain
from cosched.config.domain import (
    LEAST_UID,
    PORT,
    DomainConfig,
    SecuritySettings,
    load_config,
)
from cosched.config.queue import SIZES, UNITS, QueueSettings
from cosched.config.slurm import is_coupled, load_coupled
from cosched.config.symbiosis import PARTS_MOST, UNDIVIDED, SymbiosisSettings
from cosched.core.cluster.growth import Bounds
from cosched.core.cluster.queue.policies import POLICIES
from cosched.core.config.tables import check
from cosched.core.counting import counted, named
from cosched.core.task_rights import ROOT
from cosched.core.units import NS_PER_S
from cosched.lab.lab import Lab
from cosched.linux.files.owners import acting_as_owner
from cosched.rundir.directories import daemons_are_up

#: The settings that options give, by the names of the options' fields.
_SETTINGS = {
    "jobs_per_node": "queue.jobs_per_node",
    "unit": "queue.unit",
    "block": "queue.block",
    "policy": "queue.policy",
    "size": "queue.size",
    "parts": "symbiosis.parts",
    "slots": "slots",
}


@command("up")
class Up(Command):
    """Start a controller, and an agent on each node.

    Inside a Slurm allocation srun starts the agents, one on each of its nodes. Otherwise,
    without --hosts and --lab, this machine is the only node. The controller runs on the
    first node, in an allocation on this machine. All read the same run directory. If some
    members of the domain are up, those that were killed are started again, with the
    settings that the domain has.

    \b
    Examples:
      cosched cluster up
      cosched cluster up --lab --jobs-per-node 3
      cosched cluster up --lab --parts 2
      cosched cluster up --hosts n1,n2,n3,n4 --block 2
      cosched cluster up --hosts n1,n2 --size malleable
      cosched cluster up --nodes 1-8 --idle 5m
    """

    hosts: tuple[str, ...] = hosts_option("The nodes; a remote shell starts their agents.")
    in_lab: bool = flag("--lab", help="The nodes of the lab that is up.")
    shell: str = option(
        default="ssh -o BatchMode=yes",
        help="The remote shell; the host and the command follow.",
    )
    config: Path | None = option(
        type=DOMAIN_TOML,
        help="A domain.toml; its nodes must be those that are started.",
    )
    queue: QueueSettings = part(
        QueueSettings,
        jobs_per_node=option(
            type=Whole(1),
            help="How many jobs may share a node; cosched's daemons coschedule them.",
        ),
        unit=option(
            type=click.Choice(UNITS),
            help="What a job has: whole nodes, or CPUs of them, so that small jobs run side"
            " by side. Then --jobs-per-node jobs that --share may have a CPU.",
        ),
        block=option(
            type=Whole(0),
            help="Give each job an aligned block of this number of nodes, or of 2, 4, ..."
            " times as many; 0: any nodes.",
        ),
        policy=option(
            "--queue",
            type=click.Choice(list(POLICIES)),
            help="The order of the queue, and whether later jobs fill gaps.",
        ),
        size=option(
            type=click.Choice(SIZES),
            help="Whether the queue chooses how many nodes a malleable job has, when it "
            "starts or also later. Needs --queue easy or fcfs.",
        ),
    )
    symbiosis: SymbiosisSettings = part(
        SymbiosisSettings,
        parts=option(
            type=Whole(UNDIVIDED, PARTS_MOST),
            help="The parts of a node; 2: jobs that name what limits them may have halves.",
        ),
    )
    slots: int = option(
        type=Whole(0),
        default=0,
        help="The tasks of a job that a node takes; 0: one for each CPU.",
    )
    #: None: the usual one.
    port: int | None = option(
        type=Whole(1, 65534),
        help="The controller's; agents have the next one."
        f"  [default: {PORT}, on one machine free ones]",
    )
    #: None: the nodes of the start, for good.
    nodes: tuple[int, int] | None = option(
        type=NODES,
        help="In an allocation of Slurm: ask Slurm for more nodes when jobs wait, up to B, "
        "and give them back, down to A.",
    )
    idle_s: float = option(
        "--idle",
        type=SECONDS,
        default="60s",
        help="A node that Slurm gave later is given back after it was idle so long.",
    )
    sbatch: str = option(
        default="",
        show_default=False,
        help="Words for sbatch, such as '--time=2:00:00 --exclusive', for --nodes.",
    )
    run_dir: Path = run_dir_option()

    def __post_init__(self) -> None:
        if self.hosts and self.in_lab:
            raise click.UsageError("--hosts and --lab cannot be combined.")
        if self.nodes and (self.hosts or self.in_lab):
            raise click.UsageError("--nodes is for an allocation of Slurm.")
        for name, path in _SETTINGS.items():
            if self.config is not None and is_given(name):
                raise click.UsageError(f"--config has the setting {path}: write it there.")
        for mistake in self.queue.contradictions():
            raise click.UsageError(f"{mistake.under('queue')}.")

    def site(self) -> Site:
        """Returns the nodes."""
        if self.in_lab:
            return lab_site(self.run_dir, self.port)
        if self.hosts:
            return hosts_site(self.hosts, self.shell, self.port)
        return site_here(self.port)

    def own_daemons(self, site: Site) -> bool:
        """Returns whether the agents start the scheduler daemons of their nodes: those of
        an ordinary user, where no operator or lab has started any."""
        inside = self.in_lab or site.allocation is not None
        return os.geteuid() != ROOT and not inside

    def wanted(self, site: Site) -> DomainConfig:
        """Returns the settings that this command asks for."""
        if self.config is not None:
            loaded = load_config(self.config)
            wanted = replace(loaded, controller=site.controller, nodes=site.nodes)
        else:
            wanted = DomainConfig(
                self.run_dir.name,
                site.controller,
                site.nodes,
                slots=self.slots,
                queue=self.queue,
                symbiosis=self.symbiosis,
                own_daemons=self.own_daemons(site),
                security=SecuritySettings(site.root_from, _least_uid(os.geteuid())),
            )
        if self.nodes is not None:
            wanted = replace(wanted, most_nodes=self.nodes[1])
        check(wanted)
        return wanted

    def run(self) -> None:
        site = self.site()
        wanted = self.wanted(site)
        started = site.start_killed(self.run_dir)
        if started:
            click.echo(f"the domain goes on; started again: {', '.join(started)}")
            self._note_unused(wanted)
            return
        if self.nodes is not None:
            check_growth(site, self.nodes)
        if site.start(self.run_dir, wanted):
            former = DomainPaths(self.run_dir).former_config
            click.echo(f"the settings of before are in {former}", err=True)
        if self.nodes is not None:
            bounds = Bounds(*self.nodes, round(self.idle_s * NS_PER_S))
            site.grow(self.run_dir, bounds, self.sbatch)
        click.echo(f"domain {wanted.name} is up: {named(list(site.nodes), 'node')}")
        if wanted.queue.jobs_per_node > 1 and not wanted.own_daemons:
            self._warn_without_daemons()

    def _note_unused(self, wanted: DomainConfig) -> None:
        """Prints a line if this command names other settings than those of the domain that
        goes on."""
        file = DomainPaths(self.run_dir).config
        given = {path for name, path in _SETTINGS.items() if is_given(name)}
        unused = [
            path
            for path in other_settings(load_config(file), wanted)
            if self.config is not None or path in given
        ]
        if unused:
            click.echo(
                f"its settings stay, and these are not used: {', '.join(unused)}; write "
                f"them into {file}, then: cosched cluster reload",
                err=True,
            )

    def _warn_without_daemons(self) -> None:
        """Prints a line if jobs will share this machine without coscheduling."""
        if self.in_lab or self.hosts or daemons_are_up(self.run_dir):
            return
        click.echo(
            "no scheduler daemon is up here: jobs that share take turns by the kernel "
            "alone; start it with: cosched up",
            err=True,
        )


def _least_uid(euid: int) -> int:
    """Returns the setting for a domain of this user, whose jobs all agents pass on."""
    return LEAST_UID if euid == ROOT else min(LEAST_UID, euid)


@command("down")
class Down(Command):
    """End the agents and the controller.

    Jobs that wait stay stored until the domain is up again. If the controller was killed on
    this machine, it is started again for the end.

    \b
    Example:
      cosched cluster down --end-jobs
    """

    end_jobs: bool = flag(help="End the jobs that run.")
    run_dir: Path = any_run_dir_option()

    def run(self) -> None:
        paths = DomainPaths(self.run_dir)
        with acting_as_owner(paths.directory):
            lab = Lab.load(self.run_dir)
        try:
            ended = stop_domain(
                paths,
                os.environ.get("COSCHED_NODE"),
                end_jobs=self.end_jobs,
                patience=patient(),
                inside=() if lab is None else lab_nodes(lab, 0),
            )
        except NoDomain:
            click.echo(f"no domain is up in {self.run_dir}", err=True)
            return
        before = f"ended {jobs_text(ended)}; " if ended else ""
        click.echo(f"{before}the domain is down")


@command("keygen")
class Keygen(Command):
    """Make the keys that the members of domain.toml lack.

    Each machine needs its own NAME.secret and all NAME.public files. A domain that is
    coupled with others has one more pair of keys, in RUN_DIR/domain/peers.

    \b
    Example:
      cosched cluster keygen
    """

    run_dir: Path = run_dir_option()

    def run(self) -> None:
        paths = DomainPaths(self.run_dir)
        wanted: dict[Path, tuple[str, ...]] = {}
        if is_coupled(paths.config):
            wanted[paths.peers] = (load_coupled(paths.config).name,)
        else:
            config = load_config(paths.config)
            wanted[paths.keys] = config.members
            if config.coupling:
                wanted[paths.peers] = (config.name,)
        for folder, names in wanted.items():
            made = make_keys(folder, names)
            if made:
                click.echo(f"made {counted(len(made), 'pair')} of keys in {folder}")
            missing = without_secret(folder, names)
            for name in missing:
                click.echo(
                    f"{name}.secret is not here: each machine has its own; for a new pair "
                    f"remove {name}.public first"
                )
            if not (made or missing):
                click.echo(f"each member has its keys in {folder} already")
