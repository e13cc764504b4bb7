"""``cosched set``: change the settings of live nodes."""

from __future__ import annotations

from pathlib import Path

import click

from cosched.cli.options import run_dir_option
from cosched.core.errors import CoschedError
from cosched.core.settings import Settings
from cosched.core.units import NS_PER_S
from cosched.node.client import NoDaemon, nodes_in, request
from cosched.shm.paths import NodePaths


@click.command("set")
@run_dir_option
@click.option("--node", "nodes", multiple=True, help="Only this node (may be repeated).")
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
def command(run_dir: Path, nodes: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Change slice, gmet or align on all live nodes of this machine, or on some.

    \b
    Examples:
      cosched set slice=0.5s gmet=0.1s
      cosched set --node lab1 align=off
    """
    assignments = dict(_split(word) for word in settings)
    Settings().changed(assignments)  # what makes no sense is said before any node hears it
    targets = [NodePaths(run_dir, node) for node in nodes] or nodes_in(run_dir)
    reached = 0
    for paths in targets:
        try:
            answer = request(paths, "set", settings=assignments)
        except NoDaemon:
            if nodes:
                raise
            continue
        reached += 1
        now = answer["settings"]
        click.echo(
            f"node {paths.node}: slice={now['slice_ns'] / NS_PER_S:g}s "
            f"gmet={now['gmet_ns'] / NS_PER_S:g}s align={'on' if now['align'] else 'off'}"
        )
        for warning in answer["warnings"]:
            click.echo(f"cosched: warning: node {paths.node}: {warning}", err=True)
    if not reached:
        raise CoschedError(f"no daemons are up in {run_dir}; start them: cosched up")


def _split(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        raise CoschedError(f"'{word}': write NAME=VALUE, such as slice=0.5s")
    return name, value
