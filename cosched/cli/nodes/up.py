"""``cosched up``: starts the daemons of this node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.cli.options import run_dir_option
from cosched.config.places import load
from cosched.core.config.schema import CLASS_SCHEDULERS, MODES, given_options
from cosched.core.node.settings import Fairness, Order
from cosched.node.service.start import NodeOptions, start_node
from cosched.shm.paths import NodePaths

METRICS_USUAL = "127.0.0.1:9434"
#: The options that do not have the name of a key of [node], with their keys.


@click.command("up")
@run_dir_option
@click.option("--node", default=lambda: os.uname().nodename, show_default="this host")
@click.option("--slice", metavar="TIME|auto", help="Time slice.")
@click.option("--gmet", metavar="TIME|auto", help="Guaranteed minimum execution time.")
@click.option(
    "--align",
    type=click.Choice(["on", "off"]),
    help="Start slices at multiples of the slice in wall-clock time.",
)
@click.option(
    "--order",
    type=click.Choice([order.value for order in Order]),
    help="Which job comes first if the slice is auto: the one with the least rest, or turns"
    " by the age of the jobs. paper: Yoo and Jette's rules alone, with any slice.",
)
@click.option(
    "--least-share",
    metavar="PERCENT%/TIME",
    help="The part of its fair share that each job gets in any order, such as 25%/30s.",
)
@click.option(
    "--fairness",
    type=click.Choice([fairness.value for fairness in Fairness]),
    help="Between which parties the time is shared.",
)
@click.option(
    "--class-scheduler",
    type=click.Choice(["auto", *CLASS_SCHEDULERS]),
    help="What enforces the shares; auto takes the best one that works.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="Give the time that a job leaves unused to other jobs, or lose it.",
)
@click.option(
    "--metrics",
    is_flag=False,
    flag_value=METRICS_USUAL,
    metavar="[HOST:PORT]",
    help=f"Serve Prometheus metrics there; without a value at {METRICS_USUAL}.",
)
@click.option("--memory", metavar="SIZE", help="Memory for all jobs; auto or off.")
@click.option("--memory-wait", metavar="TIME", help="Longest wait for memory.")
@click.option(
    "--allow-boost",
    type=click.Choice(["on", "off"]),
    help="Whether owners may boost their jobs.  [default: on with --private]",
)
@click.option("--trace", metavar="SIZE", help="Disk space for the trace, or off.")
@click.option("--private", is_flag=True, help="Serve only your jobs; end after the last.")
@click.option("-v", "--verbose", is_flag=True, help="Log each switch and refusal.")
def command(
    run_dir: Path, node: str, private: bool, verbose: bool, **settings: str | None
) -> None:
    """Start the scheduler daemon and the timer daemon of this node.

    The command returns when they are ready. After a crash they take over the running
    jobs. An option that is not given has the value of the configuration: see
    'cosched config show'.

    \b
    Examples:
      cosched up
      cosched up --slice 500ms --gmet 50ms --align off
      cosched up --metrics
    """
    config, doubts = load(os.environ, given_options(settings))
    for doubt in doubts:
        click.echo(f"cosched: warning: {doubt}", err=True)
    options = NodeOptions(
        config.node.settings(),
        config.node.class_scheduler,
        config.node.mode,
        private,
        verbose,
        config.metrics_listen(private=private),
        settings["memory"],
        settings["memory_wait"],
        config.node.allow_raise,
        settings["trace"],
    )
    click.echo(start_node(NodePaths(run_dir, node), options))
