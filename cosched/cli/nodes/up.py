"""``cosched up``: starts the daemons of this node."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag, option
from cosched.cli.options import run_dir_option, this_node_option
from cosched.cluster.up.private import give_way
from cosched.config.cosched_toml import load
from cosched.core.config.schema import given_options
from cosched.core.config.words import CLASS_SCHEDULERS, MODES
from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.settings import Fairness, Order
from cosched.node.lifetime.start import NodeOptions, restart_node, start_node
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths

METRICS_USUAL = "127.0.0.1:9434"


@command("up")
class Up(Command):
    """Start the scheduler daemon and the timer daemon of this node.

    The command returns when they are ready. After a crash they take over the running
    jobs. An option that is not given has the value of the configuration: see
    'cosched config show'.

    \b
    Examples:
      cosched up
      cosched up --slice 500ms --gmet 50ms --align off
      cosched up --metrics
      cosched up --restart
    """

    run_dir: Path = run_dir_option()
    node: str = this_node_option()
    slice: str | None = option(metavar="TIME|auto", help="Time slice.")
    gmet: str | None = option(
        metavar="TIME|auto", help="Guaranteed minimum execution time."
    )
    align: str | None = option(
        type=click.Choice(["on", "off"]),
        help="Start slices at multiples of the slice in wall-clock time.",
    )
    order: str | None = option(
        type=click.Choice([order.value for order in Order]),
        help="Which job comes first if the slice is auto: the one with the least rest, or"
        " turns by the age of the jobs. paper: Yoo and Jette's rules alone, with any"
        " slice.",
    )
    least_share: str | None = option(
        metavar="PERCENT%/TIME",
        help="The part of its fair share that each job gets in any order, such as 25%/30s.",
    )
    fairness: str | None = option(
        type=click.Choice([fairness.value for fairness in Fairness]),
        help="Between which parties the time is shared.",
    )
    class_scheduler: str | None = option(
        type=click.Choice(["auto", *CLASS_SCHEDULERS]),
        help="What enforces the shares; auto takes the best one that works.",
    )
    mode: str | None = option(
        type=click.Choice(MODES),
        help="Give the time that a job leaves unused to other jobs, or lose it.",
    )
    metrics: str | None = option(
        is_flag=False,
        flag_value=METRICS_USUAL,
        metavar="[HOST:PORT]",
        help=f"Serve Prometheus metrics there; without a value at {METRICS_USUAL}.",
    )
    memory: str | None = option(metavar="SIZE", help="Memory for all jobs; auto or off.")
    memory_wait: str | None = option(metavar="TIME", help="Longest wait for memory.")
    allow_boost: str | None = option(
        type=click.Choice(["on", "off"]),
        help="Whether owners may boost their jobs.  [default: on with --private]",
    )
    trace: str | None = option(metavar="SIZE", help="Disk space for the trace, or off.")
    history_age: str | None = option(
        metavar="TIME", help="How long records of ended jobs are kept."
    )
    looks: str | None = option(
        metavar="PERCENT%",
        help="How much of its time a job rests, so that jobs beside it are seen alone; or"
        " off.",
    )
    slowed_most: str | None = option(
        metavar="FACTOR",
        help="How much a job may be slowed by others before one gives way; or off.",
    )
    private: bool = flag(help="Serve only your jobs; end after the last.")
    restart: bool = flag(
        help="First end the daemons that are up; the new ones take their jobs over."
    )
    verbose: bool = flag("-v", "--verbose", help="Log each switch and refusal.")

    def run(self) -> None:
        config, doubts = load(os.environ, given_options(vars(self)))
        for doubt in doubts:
            click.echo(f"cosched: warning: {doubt}", err=True)
        options = NodeOptions(
            config.node.settings(),
            config.node.class_scheduler,
            config.node.mode,
            self.private,
            self.verbose,
            config.metrics_listen(private=self.private),
            self.memory,
            self.memory_wait,
            config.node.allow_raise,
            self.trace,
            self.looks,
            self.slowed_most,
            self.history_age,
        )
        paths = NodePaths(self.run_dir, self.node)
        if not (self.private or self.restart):
            _end_idle_domain(paths)
        start = restart_node if self.restart else start_node
        click.echo(start(paths, options))


def _end_idle_domain(paths: NodePaths) -> None:
    """Ends a private domain of this user that has daemons of this node and no running job.
    Raises CoschedError if jobs run there."""
    with contextlib.suppress(NoDaemon):
        if not request(paths, "status", memory=False)["private"]:
            return
        try:
            give_way(paths.run_dir)
        except CoschedError as error:
            raise CoschedError(
                f"{error}; to take its daemons over: cosched up --restart"
            ) from None
