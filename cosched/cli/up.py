"""``cosched up``: start the daemons of this node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.cli.options import run_dir_option
from cosched.core.settings import Settings
from cosched.node.lifecycle import NodeOptions, start_node
from cosched.shm.paths import NodePaths


@click.command("up")
@run_dir_option
@click.option("--node", default=lambda: os.uname().nodename, show_default="this host")
@click.option("--slice", "slice_", default="2s", show_default=True, help="Time slice.")
@click.option(
    "--gmet", default="100ms", show_default=True, help="Guaranteed minimum execution time."
)
@click.option(
    "--align/--no-align",
    default=True,
    show_default=True,
    help="Start slices at multiples of the slice in wall-clock time.",
)
@click.option(
    "--class-scheduler",
    type=click.Choice(["auto", "cgroup2", "cgroup1", "dutycycle"]),
    default="auto",
    show_default=True,
    help="What enforces the shares; auto takes the best that works.",
)
@click.option(
    "--mode",
    type=click.Choice(["proportional", "strict"]),
    default="proportional",
    show_default=True,
    help="Whether time that a job leaves unused goes to the others, or is lost.",
)
@click.option("--private", is_flag=True, help="For this user's jobs; ends after the last.")
@click.option("-v", "--verbose", is_flag=True, help="Log each switch and refusal.")
def command(
    run_dir: Path,
    node: str,
    slice_: str,
    gmet: str,
    align: bool,
    class_scheduler: str,
    mode: str,
    private: bool,
    verbose: bool,
) -> None:
    """Start the scheduler daemon and the timer daemon of this node.

    Returns when they are ready. After a crash it takes over the running jobs.

    \b
    Examples:
      cosched up
      cosched up --slice 500ms --gmet 50ms --no-align
    """
    settings = Settings().changed(
        {"slice": slice_, "gmet": gmet, "align": "on" if align else "off"}
    )
    for warning in settings.warnings():
        click.echo(f"cosched: warning: {warning}", err=True)
    options = NodeOptions(settings, class_scheduler, mode, private, verbose)
    click.echo(start_node(NodePaths(run_dir, node), options))
