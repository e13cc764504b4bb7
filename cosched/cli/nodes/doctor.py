"""``cosched doctor``: examines nodes and says what to repair."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag, option
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.hosts_option import hosts_option
from cosched.cli.options import asked_run_dir_option, json_option
from cosched.cli.printing import show_progress
from cosched.cli.tools import shim_check
from cosched.cli.values import COMMAND
from cosched.core.errors import CoschedError
from cosched.launch.mpi import SearchPath
from cosched.launch.shim import make_shim
from cosched.launch.target import find_target
from cosched.linux.here import this_node
from cosched.observe.doctor.asking import answer, ask_facts
from cosched.observe.doctor.facts import NodeFacts, Seen, Site
from cosched.observe.doctor.findings import Finding, good, is_bad, problem, render
from cosched.observe.doctor.gather import gather_health, gather_node
from cosched.observe.doctor.judge import document, judge, judge_health
from cosched.observe.doctor.slurm_settings import read_slurm
from cosched.observe.reach.named_nodes import way_to_hosts
from cosched.rundir.paths import NodePaths
from cosched.tables import WIDTH


@command("doctor")
class Doctor(Command):
    """Examine nodes: a line for each finding, with its remedy.

    It looks at kernel, control groups, daemons, clock, run directory, memory and MPIs of
    each node. It compares the nodes, and looks for settings of Slurm that disturb
    coscheduling. Nothing is changed.

    \b
      good      as it should be
      note      works, but you may want to know
      warning   jobs are coscheduled worse
      problem   jobs are not coscheduled

    With --hosts the nodes run this cosched too, at the same path. The clocks are
    compared to fractions of a millisecond. Nodes of the lab need no remote shell.

    --health is for programs that check nodes all the time: it starts no MPI, asks
    Slurm nothing, and prints only what is not good.

    \b
    Examples:
      cosched doctor
      cosched doctor --hosts 'n[1-4,7]'
      cosched doctor --hosts n1,n2 --shell 'srun --overlap --jobid=4711 -N1 -w'
      cosched doctor --shim
      cosched doctor --health --strict

    Exit status: 0; 1 if there is a problem, with --strict also if there is a warning.
    """

    hosts: tuple[str, ...] = hosts_option(
        "Examine these nodes; a remote shell reaches them."
    )
    shell: tuple[str, ...] = option(
        type=COMMAND,
        default=(),
        help="The remote shell; host and command follow.  [default: COSCHED_REMOTE_SHELL,"
        " ssh]",
    )
    health: bool = flag(help="Only what must be right on a running node.")
    shim: bool = flag(help="Also run a program with each MPI of this node.")
    strict: bool = flag(help="A warning counts as a problem.")
    verbose: bool = flag("-v", "--verbose", help="With --hosts: show what is good, too.")
    facts: bool = flag(hidden=True, help="Answer another doctor.")
    as_json: bool = json_option()
    run_dir: Path = asked_run_dir_option()

    def __post_init__(self) -> None:
        if (self.health or self.shim) and self.hosts:
            raise click.UsageError(
                "--health and --shim are for this node: without --hosts."
            )
        if self.health and self.shim:
            raise click.UsageError("--health and --shim cannot be combined.")

    def run(self) -> int:
        here = NodePaths(self.run_dir, this_node(os.environ))
        if self.facts:
            answer(gather_node(here, _python_bin(), os.environ), sys.stdin, sys.stdout)
            return 0
        if self.health:
            site = Site((Seen(here.node, gather_health(here)),))
            groups = judge_health(site)
        else:
            site = _examine(self.hosts, self.shell, here)
            groups = judge(site)
        if self.shim:
            groups["shim"] = list(_check_shims(_only(site)))
        if self.as_json:
            click.echo(json.dumps(document(site, groups), indent=2))
        elif groups:
            # Programs read the findings of --health, one a line.
            width = sys.maxsize if self.health else WIDTH
            all_of_them = self.verbose or not self.hosts
            click.echo(render(groups, all_of_them=all_of_them, width=width))
        found = [finding for findings in groups.values() for finding in findings]
        return EXIT_FAILURE if is_bad(found, strict=self.strict) else 0


def _examine(hosts: Sequence[str], shell: Sequence[str], here: NodePaths) -> Site:
    """Collects the facts of the hosts; without hosts of this node."""
    slurm, silent = None, ""
    try:
        slurm = read_slurm(_note_slow_slurm)
    except CoschedError as error:
        silent = str(error)
    if not hosts:
        facts = gather_node(here, _python_bin(), os.environ)
        return Site((Seen(here.node, facts),), slurm, silent, unnamed=True)
    words = [str(_this_program()), "doctor", "--facts", "--run-dir", str(here.run_dir)]
    way = way_to_hosts(hosts, here.run_dir, os.environ, shell)
    show = partial(show_progress, "asking nodes")
    return Site(ask_facts(way, words, show), slurm, silent)


def _note_slow_slurm() -> None:
    click.echo("cosched: Slurm has not answered yet; waiting for scontrol", err=True)


def _check_shims(facts: NodeFacts) -> Iterator[Finding]:
    """Runs the shim's own check with each MPI of this node."""
    places = SearchPath(_python_bin(), os.environ)
    for mpi in facts.mpis or ():
        name = f"{mpi.title} {mpi.version}"
        try:
            target = find_target((), mpi.mpiexec, None, places)
            show = partial(show_progress, f"building for {target.title}")
            shim = make_shim(target.build, show)
            failed = [one for one in shim_check.outcomes(target, shim) if not one.ok]
        except CoschedError as error:
            yield problem(
                "shim", f"{name}: {error}", f"cosched shim build --mpi {mpi.mpiexec}"
            )
            continue
        if failed:
            text = f"{name}, {failed[0].carrier}: {failed[0].why}"
            yield problem("shim", text, f"cosched shim check --mpi {mpi.mpiexec}")
        else:
            yield good("shim", f"{name}: all calls work with both carriers")


def _only(site: Site) -> NodeFacts:
    (facts,) = site.facts
    return facts


def _this_program() -> Path:
    """Returns the command ``cosched``.

    ``python -m`` would search the directory in which the remote shell begins."""
    called = Path(sys.argv[0]).absolute()
    return called if called.name == "cosched" else _python_bin() / "cosched"


def _python_bin() -> Path:
    return Path(sys.executable).parent
