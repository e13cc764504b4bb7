"""``cosched down``: stops the daemons of this node."""

from __future__ import annotations

from pathlib import Path

import click

from cosched.cli.declared import Command, command, flag
from cosched.cli.options import any_run_dir_option, this_node_option
from cosched.core.errors import CoschedError
from cosched.node.lifetime.stop import free_jobs, stop_node
from cosched.rundir.paths import NodePaths


@command("down")
class Down(Command):
    """Stop the daemons of this node; running jobs go on at the kernel's normal shares.

    \b
    Examples:
      cosched down
      cosched down --keep-jobs
    """

    run_dir: Path = any_run_dir_option()
    node: str = this_node_option()
    keep_jobs: bool = flag(
        help="After daemons were killed: let their jobs run freely until others are up."
    )

    def run(self) -> None:
        node = self.node
        paths = NodePaths(self.run_dir, node)
        if self.keep_jobs:
            kept = free_jobs(paths)
            says = "its jobs run freely; cosched up takes them over" if kept else "no jobs"
            click.echo(f"node {node}: {says}")
            return
        if not stop_node(paths):
            raise CoschedError(f"node {node}: no daemons are up in {self.run_dir}")
        click.echo(f"node {node}: down")
