"""``cosched cluster couple``, ``gate``, ``task-prolog``, ``mates``: couples clusters."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from cosched.cli.connection import connect
from cosched.cli.declared import Command, command, option
from cosched.cli.options import (
    any_run_dir_option,
    domain_dir_option,
    json_option,
    run_dir_option,
)
from cosched.cli.values import DOMAIN_TOML
from cosched.cluster.engines.slurm.prolog_scripts import (
    GATE,
    check_reads,
    check_runs,
    front_script,
    task_script,
    uid_of,
)
from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import refuse_second, start_coupled
from cosched.config.domain import load_any_coupled
from cosched.config.slurm import is_coupled, load_coupled
from cosched.core.errors import CoschedError
from cosched.documents import is_there
from cosched.linux.files.whole import write_whole
from cosched.linux.here import this_node


@command("couple")
class Couple(Command):
    """Start the controller of one of several coupled clusters.

    It makes the key of this domain. Each domain needs the public keys of the others:
    copy NAME.public between the directories RUN_DIR/domain/peers. Slurm queues the jobs if
    the file has engine = "slurm". Otherwise this controller queues them, and agents join
    it: cosched cluster up starts both.

    \b
    Example:
      cosched cluster couple --config domain.toml
    """

    config: Path = option(
        required=True,
        type=DOMAIN_TOML,
        help="A domain.toml with a table [coupling].",
    )
    run_dir: Path = run_dir_option()

    def run(self) -> None:
        loaded, members = load_any_coupled(self.config)
        paths = DomainPaths(self.run_dir)
        refuse_second(paths, ())  # its agents may be up
        paths.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        if self.config.resolve() != paths.config.resolve():
            write_whole(paths.config, self.config.read_bytes())
        make_keys(paths.peers, [loaded.name])
        if members:
            make_keys(paths.keys, members)
        start_coupled(paths)
        others = ", ".join(loaded.domains)
        click.echo(f"domain {loaded.name} is coupled with {others}")


@command("gate")
class Gate(Command):
    """Print the script that slurm.conf names as PrologSlurmctld.

    \b
    Examples:
      cosched cluster gate > /etc/slurm/cosched-gate
      cosched cluster gate --python /usr/bin/python3
    """

    python: str = option(
        default=sys.executable,
        show_default="cosched's own",
        help="A Python 3 that SlurmUser may run.",
    )
    run_dir: Path = any_run_dir_option()

    def run(self) -> None:
        paths = DomainPaths(self.run_dir)
        if not is_there(paths.config):
            raise CoschedError(
                f"{paths.config}: is missing; write it first, or name another --run-dir"
            )
        if not is_coupled(paths.config):
            raise CoschedError(
                f'{paths.config}: has no engine = "slurm", so it has no gate'
            )
        settings = load_coupled(paths.config).slurm
        uid = uid_of(settings.user)
        check_runs(self.python, uid, settings.user)
        check_reads(GATE, uid, settings.user)
        click.echo(front_script(self.python, paths.gate_socket, settings), nl=False)


@click.command("task-prolog")
def task_prolog() -> None:
    """Print the script that slurm.conf names as TaskProlog.

    It gives jobs COSCHED_MATES, the addresses of their mates in other domains.

    \b
    Example:
      cosched cluster task-prolog > /etc/slurm/cosched-mates
    """

    click.echo(task_script(), nl=False)


@command("mates")
class Mates(Command):
    """List the jobs that wait for mates in other domains, and why.

    \b
    Examples:
      cosched cluster mates
      cosched cluster mates --json
    """

    run_dir: Path = domain_dir_option()
    as_json: bool = json_option()

    def run(self) -> None:
        with connect(self.run_dir, this_node(os.environ)) as client:
            found = client.mates()
        if self.as_json:
            click.echo(json.dumps({"mates": found}))
            return
        if not found:
            click.echo("no job waits for a mate")
        for each in found:
            click.echo(f"{each['job']} {each['group']}: {each['why']}")
