"""``cosched up``: starts the daemons of this node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.cli.options import run_dir_option
from cosched.core.node.settings import Fairness, Order
from cosched.node.configuration import load
from cosched.node.service.start import NodeOptions, start_node
from cosched.shm.paths import NodePaths

METRICS_USUAL = "127.0.0.1:9434"


@click.command("up")
@run_dir_option
@click.option("--node", default=lambda: os.uname().nodename, show_default="this host")
@click.option("--slice", "slice_", metavar="TIME|auto", help="Time slice.")
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
    type=click.Choice(["auto", "cgroup2", "cgroup1", "dutycycle"]),
    help="What enforces the shares; auto takes the best one that works.",
)
@click.option(
    "--mode",
    type=click.Choice(["proportional", "strict"]),
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
    run_dir: Path,
    node: str,
    slice_: str | None,
    gmet: str | None,
    align: str | None,
    order: str | None,
    least_share: str | None,
    fairness: str | None,
    class_scheduler: str | None,
    mode: str | None,
    metrics: str | None,
    memory: str | None,
    memory_wait: str | None,
    allow_boost: str | None,
    trace: str | None,
    private: bool,
    verbose: bool,
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
    given = {
        "node.slice": (slice_, "--slice"),
        "node.gmet": (gmet, "--gmet"),
        "node.align": (align, "--align"),
        "node.order": (order, "--order"),
        "node.least_share": (least_share, "--least-share"),
        "node.fairness": (fairness, "--fairness"),
        "node.class_scheduler": (class_scheduler, "--class-scheduler"),
        "node.mode": (mode, "--mode"),
        "node.trace": (trace, "--trace"),
        "metrics.listen": (metrics, "--metrics"),
        "node.memory": (memory, "--memory"),
        "node.memory_wait": (memory_wait, "--memory-wait"),
        "node.allow_raise": (allow_boost, "--allow-boost"),
    }
    config, doubts = load(
        os.environ,
        {path: (text, name) for path, (text, name) in given.items() if text is not None},
    )
    settings = config.node.settings()
    for doubt in doubts:
        click.echo(f"cosched: warning: {doubt}", err=True)
    options = NodeOptions(
        settings,
        config.node.class_scheduler,
        config.node.mode,
        private,
        verbose,
        config.metrics_listen(private=private),
        memory,
        memory_wait,
        config.node.allow_raise,
        trace,
    )
    click.echo(start_node(NodePaths(run_dir, node), options))
