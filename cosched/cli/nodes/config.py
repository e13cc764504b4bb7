"""``cosched config``: shows, checks and changes the configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from cosched.cli.declared import Command, argument, command, flag
from cosched.cli.entry import EXIT_FAILURE
from cosched.cli.groups import Group
from cosched.cli.nodes.config_live import Live, differing, explanation, live_settings
from cosched.cli.nodes.config_set import Set
from cosched.cli.options import asked_run_dir_option, json_option
from cosched.config.config_files import OPERATOR_FILE
from cosched.config.cosched_toml import examine, examine_file
from cosched.core.config.merged_config import Config
from cosched.core.config.mistakes import Problem
from cosched.core.config.schema import KEYS, Sections
from cosched.core.config.tables import Key, keys_of
from cosched.core.errors import CoschedError
from cosched.documents import examined, read_toml
from cosched.observe.status import gather


@click.group("config", cls=Group)
def config() -> None:
    """Show, check and change the configuration.

    It is read from /etc/cosched.toml, ~/.config/cosched/config.toml, variables
    COSCHED_SECTION_KEY and options. A later place overrides an earlier one.

    \b
    Examples:
      cosched config show
      cosched config check
      cosched config set slice=0.5s gmet=0.1s
    """


config.add_command(Set.click_command)


@command("show", of=config)
class Show(Command):
    """Print each value and where it came from.

    Daemons started now would have these values. Where daemons are up, 'now' marks the
    settings that they have instead, such as after 'cosched config set' without --save.
    They read all other keys when they start. Errors are printed on stderr, and the exit
    status is then 1.

    \b
    Examples:
      cosched config show
      cosched config show --json
    """

    run_dir: Path = asked_run_dir_option()
    as_json: bool = json_option()

    def run(self) -> int:
        config, errors, warnings = examine(os.environ)
        live: Live = {}
        try:
            live = live_settings(gather(self.run_dir))
        except CoschedError as error:  # the files are shown all the same
            warnings.append(Problem("", str(error)))
        if self.as_json:
            plain = {**_plain(config, errors, warnings), "live": live}
            click.echo(json.dumps(plain, indent=2))
        else:
            click.echo(_table(config, differing(config, live)), nl=False)
            if live:
                click.echo(explanation(live))
        _print_problems(errors, warnings)
        return EXIT_FAILURE if errors else 0


@command("check", of=config, short_help="Check the configuration, or FILE.")
class Check(Command):
    """Check FILE, or the whole configuration: unknown keys, impossible values, and
    combinations that have no effect or the opposite one.

    FILE is a cosched.toml, a domain.toml or a workload. Each problem is one line with
    file and line number; the exit status is then 1.

    \b
    Examples:
      cosched config check
      cosched config check new.toml
      cosched config check domain.toml
    """

    file: Path | None = argument(
        required=False,
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="[FILE]",
    )
    user: bool = flag(help="Check FILE as a user's file, which cannot set limits.")
    as_json: bool = json_option()

    def __post_init__(self) -> None:
        if self.user and self.file is None:
            raise click.UsageError("--user goes with a FILE.")

    def run(self) -> int:
        warnings: list[Problem] = []
        config = None
        if self.file is None:
            config, errors, warnings = examine(os.environ)
        elif (schema := _other_schema(self.file)) is not None:
            errors, warnings = examined(self.file, schema)
            errors = errors or _problems_here(self.file, schema)
        else:
            config, errors = examine_file(self.file, operator=not self.user)
        if self.as_json:
            click.echo(json.dumps(_plain(config, errors, warnings), indent=2))
        _print_problems(errors, warnings)
        if not errors and not self.as_json:
            click.echo(f"{self.file or 'configuration'}: all right")
        return EXIT_FAILURE if errors else 0


def _problems_here(file: Path, schema: type) -> list[Problem]:
    """Returns the mistakes in a file that is right by itself, but not on this machine."""
    from cosched.config.slurm import SlurmDomain, load_coupled, problems_here

    if schema is not SlurmDomain:
        return []
    return problems_here(file, load_coupled(file).slurm)


def _other_schema(file: Path) -> type | None:
    """Returns the table that a file has at its top; None for a cosched.toml."""
    from cosched.bench.workload.file import Workload  # starts slowly
    from cosched.config.domain import DomainConfig
    from cosched.config.slurm import SlurmDomain

    try:
        found = frozenset(read_toml(file))
    except CoschedError:
        return None
    if "engine" in found:
        return SlurmDomain
    if found & {"controller", "coupling"}:
        return DomainConfig
    if found & {"job", "arrivals"}:
        return Workload
    sure = found - {"nodes"}  # it may be a wrong [node]
    return DomainConfig if _has(sure, DomainConfig) > _has(found, Sections) else None


def _has(found: frozenset[str], schema: type) -> int:
    """Returns how many of these keys and tables belong at the top of a file."""
    return len(found & {key.path.partition(".")[0] for key in keys_of(schema)})


def _print_problems(errors: list[Problem], warnings: list[Problem]) -> None:
    for problem in errors:
        click.echo(str(problem), err=True)
    for problem in warnings:
        click.echo(f"cosched: warning: {problem}", err=True)


def _table(config: Config, now: Mapping[str, str]) -> str:
    """Returns the lines of all keys. now: the daemons' texts, by ``table.key``."""
    settings = config.merged
    values = {key.path: _text(key, settings[key.path].value) for key in KEYS}
    width = max(map(len, values.values()))
    lines = []
    section = ""
    for key in KEYS:
        if key.table != section:
            section = key.table
            lines.append(f"[{section}]")
        value, origin = values[key.path], _short(str(settings[key.path].origin))
        lines.append(f"  {key.name:<16} {value:<{width}} {origin}")
        if key.path in now:
            lines.append(f"  {'':<16} now {now[key.path]}")
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
    config: Config | None, errors: list[Problem], warnings: list[Problem]
) -> dict[str, Any]:
    """Returns the JSON document. config: None for a file of another kind."""
    return {
        "operator_file": str(OPERATOR_FILE),
        "values": {} if config is None else _values(config),
        "errors": [{"where": p.where, "message": p.message} for p in errors],
        "warnings": [{"where": p.where, "message": p.message} for p in warnings],
    }


def _values(config: Config) -> dict[str, Any]:
    return {
        key.path: {
            "value": key.shown(config.merged[key.path].value),
            "source": config.origin(key.path).source.value,
            "where": config.origin(key.path).where or None,
            "about": key.about,
        }
        for key in KEYS
    }
