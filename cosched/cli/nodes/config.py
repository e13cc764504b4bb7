"""``cosched config``: what is set, where it was said, and whether it makes sense."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from cosched.cli.nodes import set as set_module
from cosched.cli.options import EXIT_FAILURE, json_option
from cosched.core.config.schema import KEYS, Key
from cosched.core.config.values import Config, Problem
from cosched.node.configuration import OPERATOR_FILE, examine, examine_file

_VALUE_WIDTH = 22


@click.group("config")
def command() -> None:
    """Show, check and change the configuration.

    It is read from /etc/cosched.toml, ~/.config/cosched/config.toml, variables
    COSCHED_SECTION_KEY and options, later ones winning.

    \b
    Examples:
      cosched config show
      cosched config check
      cosched config set slice=0.5s gmet=0.1s
    """


command.add_command(set_module.command)


@command.command("show")
@json_option
def show(as_json: bool) -> int:
    """Print each value and where it came from.

    What is wrong is said on stderr; the exit status is then 1. This is what daemons would
    be started with; 'cosched status' shows what those that are up have now.

    \b
    Examples:
      cosched config show
      cosched config show --json
    """
    config, errors, warnings = examine(os.environ)
    if as_json:
        click.echo(json.dumps(_plain(config, errors, warnings), indent=2))
    else:
        click.echo(_table(config), nl=False)
    _say(errors, warnings)
    return EXIT_FAILURE if errors else 0


@command.command("check", short_help="Look for what is wrong, here or in FILE.")
@click.argument(
    "file",
    required=False,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="[FILE]",
)
@click.option(
    "--user", is_flag=True, help="Judge FILE as a user's, which may set no limits."
)
@json_option
def check(file: Path | None, user: bool, as_json: bool) -> int:
    """Look for keys that do not exist, values that cannot be and combinations that do
    nothing or the opposite, in FILE or in all that would be read now.

    Each problem is a line with file and line number; the exit status is then 1.

    \b
    Examples:
      cosched config check
      cosched config check new.toml
    """
    if user and file is None:
        raise click.UsageError("--user goes with a FILE.")
    if file is None:
        config, errors, warnings = examine(os.environ)
    else:
        config, errors = examine_file(file, operator=not user)
        warnings = []
    if as_json:
        click.echo(json.dumps(_plain(config, errors, warnings), indent=2))
    _say(errors, warnings)
    if not errors and not as_json:
        click.echo(f"{file or 'configuration'}: all right")
    return EXIT_FAILURE if errors else 0


def _say(errors: list[Problem], warnings: list[Problem]) -> None:
    for problem in errors:
        click.echo(str(problem), err=True)
    for problem in warnings:
        click.echo(f"cosched: warning: {problem}", err=True)


def _table(config: Config) -> str:
    lines = []
    section = ""
    for key in KEYS:
        if key.section != section:
            section = key.section
            lines.append(f"[{section}]")
        setting = config.merged[key.path]
        value = _text(key, setting.value)
        lines.append(
            f"  {key.name:<16} {value:<{_VALUE_WIDTH}} {_short(str(setting.origin))}"
        )
    return "\n".join([*lines, ""])


def _text(key: Key, value: Any) -> str:
    shown = key.shown(value)
    if shown is None:
        return "-"
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return ",".join(shown) if isinstance(shown, list) else str(shown)


def _short(where: str) -> str:
    home = os.environ.get("HOME", "")
    under = home not in ("", "/") and where.startswith(home + "/")
    return "~" + where.removeprefix(home) if under else where


def _plain(
    config: Config, errors: list[Problem], warnings: list[Problem]
) -> dict[str, Any]:
    return {
        "operator_file": str(OPERATOR_FILE),
        "values": {
            key.path: {
                "value": key.shown(config.merged[key.path].value),
                "source": config.origin(key.path).source.value,
                "where": config.origin(key.path).where or None,
                "about": key.about,
            }
            for key in KEYS
        },
        "errors": [{"where": p.where, "message": p.message} for p in errors],
        "warnings": [{"where": p.where, "message": p.message} for p in warnings],
    }
