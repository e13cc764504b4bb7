"""``cosched down``: stops the daemons of this node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.cli.options import any_run_dir_option
from cosched.core.errors import CoschedError
from cosched.node.service.stop import free_jobs, stop_node
from cosched.shm.paths import NodePaths


@click.command("down")
@any_run_dir_option
@click.option("--node", default=lambda: os.uname().nodename, show_default="this host")
@click.option(
    "--keep-jobs",
    is_flag=True,
    help="After daemons were killed: let their jobs run freely until others are up.",
)
def command(run_dir: Path, node: str, keep_jobs: bool) -> None:
    """Stop the daemons of this node; running jobs go on at the kernel's normal shares.

    \b
    Examples:
      cosched down
      cosched down --keep-jobs
    """
    paths = NodePaths(run_dir, node)
    if keep_jobs:
        kept = free_jobs(paths)
        says = "its jobs run freely; cosched up takes them over" if kept else "no jobs"
        click.echo(f"node {node}: {says}")
        return
    if not stop_node(paths):
        raise CoschedError(f"node {node}: no daemons are up in {run_dir}")
    click.echo(f"node {node}: down")
