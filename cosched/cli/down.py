"""``cosched down``: stop the daemons of this node."""

from __future__ import annotations

import os
from pathlib import Path

import click

from cosched.cli.options import run_dir_option
from cosched.core.errors import CoschedError
from cosched.node.lifecycle import stop_node
from cosched.shm.paths import NodePaths


@click.command("down")
@run_dir_option
@click.option("--node", default=lambda: os.uname().nodename, show_default="this host")
def command(run_dir: Path, node: str) -> None:
    """Stop the daemons of this node; running jobs go on at the kernel's normal shares.

    \b
    Example:
      cosched down
    """
    if not stop_node(NodePaths(run_dir, node)):
        raise CoschedError(f"node {node}: no daemons are up in {run_dir}")
    click.echo(f"node {node}: down")
