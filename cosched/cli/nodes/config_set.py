"""``cosched config set``: changes settings of live nodes, and of the file."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import Command, argument, command, flag
from cosched.cli.nodes.config_live import live_texts
from cosched.cli.options import asked_run_dir_option, nodes_option
from cosched.config.config_files import usual_files
from cosched.config.save import save
from cosched.core.config.schema import BY_PATH, LIVE
from cosched.core.config.suggestions import suggest
from cosched.core.config.tables import Key
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.node.sockets.client import HeldChanges, ask_each, request
from cosched.observe.status import Status, gather, no_daemons


@command("set", short_help="Change settings, live or in the file.")
class Set(Command):
    """Change settings on all live nodes of this machine, or on some.

    The settings are slice, gmet, align, order, least_share and fairness. Jobs are not
    disturbed. Without NAME=VALUE it prints the settings of the live nodes
    and changes none. With --save any key that 'cosched config show' lists can
    be set. Daemons and cosched-run read the other keys when they start.
    The file is /etc/cosched.toml for root, otherwise ~/.config/cosched/config.toml.

    With --hold the command waits for the end of its input, or its own end by any
    signal. Then the settings of before return. 'cosched bench' and 'tune' change nodes
    in this way.

    \b
    Examples:
      cosched config set slice=0.5s gmet=0.1s
      cosched config set --node lab1 align=off
      cosched config set order=age
      cosched config set --save slice=1s run.wait=block
      ssh n1 cosched config set --hold slice=5s
    """

    run_dir: Path = asked_run_dir_option()
    nodes: tuple[str, ...] = nodes_option()
    save: bool = flag(help="Also write them into the configuration file.")
    hold: bool = flag(help="Undo the changes when standard input ends.")
    settings: tuple[str, ...] = argument(nargs=-1, metavar="[NAME=VALUE...]")

    def __post_init__(self) -> None:
        if self.hold and self.save:
            raise click.UsageError("--hold and --save cannot be combined.")
        if not self.settings and (self.save or self.hold):
            raise click.UsageError(f"--{'save' if self.save else 'hold'} needs NAME=VALUE.")

    def run(self) -> None:
        run_dir, nodes = self.run_dir, self.nodes
        if not self.settings:
            statuses = gather(run_dir, nodes)
            if not statuses:
                raise no_daemons(run_dir, os.geteuid())
            _print_live(statuses)
            return
        wanted = dict(_split(word) for word in self.settings)
        values = {key.path: key.kind.named(text, key.name) for key, text in wanted.items()}
        live = {key.name: text for key, text in wanted.items() if key.live}
        rest = [key.path for key in wanted if not key.live]
        if rest and not self.save:
            raise CoschedError(_needs_save(rest[0]))
        Settings().changed(live)  # raises before any node is changed
        if self.hold:
            _hold(run_dir, nodes, live)
            return
        saved = _save(values) if self.save else None
        try:
            reached = _set_live(run_dir, nodes, live) if live else 0
        except CoschedError as error:
            if saved is None:
                raise
            raise CoschedError(f"saved in {saved}, but not set: {error}") from None
        if saved is not None:
            click.echo(f"saved in {saved}")
        elif not reached:
            raise no_daemons(run_dir, os.geteuid())


def _needs_save(path: str) -> str:
    """Returns the line about a key that no running daemon can change."""
    if path.startswith("run."):
        return f"{path}: cosched-run reads it from the file; write it there with --save"
    return (
        f"{path}: running daemons cannot change it; write it into the file with --save, "
        "then restart them: systemctl restart cosched, or cosched up --restart"
    )


def _split(word: str) -> tuple[Key, str]:
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        raise CoschedError(f"'{word}': write NAME=VALUE, such as slice=0.5s")
    key = LIVE.get(name) or BY_PATH.get(name)
    if key is None:
        hint = suggest(name, [*LIVE, *BY_PATH]) or "; see cosched config show"
        raise CoschedError(f"'{name}' is not a setting{hint}")
    return key, value


def _save(values: Mapping[str, Any]) -> Path:
    places = usual_files(os.environ)
    operator = os.geteuid() == 0
    path = places.operator if operator else places.user
    if path is None:
        raise CoschedError("no place for a configuration file: HOME is not set")
    save(path, values, operator=operator)
    return path


def _set_live(run_dir: Path, nodes: tuple[str, ...], live: Mapping[str, str]) -> int:
    """Changes the nodes that are up and prints their settings; returns their number."""
    reached = 0
    change = partial(request, op="set", settings=dict(live))
    for node, answer in ask_each(run_dir, nodes, change):
        reached += 1
        _print_node(node, answer["settings"])
        for warning in [*answer["warnings"], *_unused(answer["settings"], live)]:
            click.echo(f"cosched: warning: node {node}: {warning}", err=True)
    return reached


def _hold(run_dir: Path, nodes: tuple[str, ...], live: Mapping[str, str]) -> None:
    """Changes the nodes that are up until standard input ends."""
    if _input_has_ended():
        raise CoschedError(
            "--hold: standard input has ended already, so nothing can be held; a shell's "
            "background command or 'ssh -n' has no input"
        )
    with HeldChanges() as held:
        reached = 0
        change = partial(held.hold, op="borrow", settings=dict(live))
        for node, answer in ask_each(run_dir, nodes, change):
            reached += 1
            _print_node(node, answer["settings"])
        if not reached:
            raise no_daemons(run_dir, os.geteuid())
        while os.read(sys.stdin.fileno(), 65536):
            pass


def _input_has_ended() -> bool:
    """Reads the input that came already; returns whether no more can come."""
    fd = sys.stdin.fileno()
    while select.select([fd], [], [], 0)[0]:
        if not os.read(fd, 65536):
            return True
    return False


def _unused(settings: Mapping[str, str], live: Mapping[str, str]) -> Iterator[str]:
    """Yields a line for each of the ``live`` settings that changes nothing."""
    for name, reason in Settings().changed(dict(settings)).without_effect.items():
        if name in live:
            yield f"{name} has no effect with {reason}={settings[reason]}"


def _print_live(statuses: Sequence[Status]) -> None:
    """Prints the settings of the nodes that have these statuses."""
    for status in statuses:
        _print_node(status["node"], live_texts(status))


def _print_node(node: str, settings: Mapping[str, str]) -> None:
    """Prints the settings of turns and the settings of the order, a line each."""
    # The bench reads these lines; see cosched/bench/run/remote.py.
    words = [f"{name}={text}" for name, text in settings.items()]
    for line in (words[:3], words[3:]):
        click.echo(f"node {node}: {' '.join(line)}")
