"""Makes commands that hold other commands: their help, misspelt and old names. A lazy group
imports the module of a command when the command is used."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

import click

from cosched.core.config.old_names import translate_command, translate_options
from cosched.core.config.suggestions import suggest


class Group(click.Group):
    """A group that suggests and translates names. Alone it prints its help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Versions of click differ in what they do with a group alone."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command that the words name. A UsageError about an option without its
        value, which click gives no context, gets that of the command."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            if error.ctx is None and command is not None:
                error.ctx = click.Context(command, ctx, name)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Finds the command that ``args`` name; UsageError with a suggestion if none."""
        args, warnings = translate_command(ctx.command_path, args)
        _warn(ctx, warnings)
        word = args[0]
        known = self.get_command(ctx, word) is not None
        if not known and not word.startswith("-") and not ctx.resilient_parsing:
            hint = suggest(word, self.list_commands(ctx)) or "."
            ctx.fail(f"No such command '{word}'{hint}")
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            rest = current_options(ctx, command, f"{ctx.command_path} {name}", rest)
        return name, command, rest


#: Heading, then name: (module below ``cosched.cli``, its class or group, summary).
Sections = Mapping[str, Mapping[str, tuple[str, str, str]]]


class LazyGroup(Group):
    """A group whose commands stand in a table. Only the module of the command that is used
    is imported, so that others may need much, and ``--help`` is quick."""

    def __init__(self, *args: Any, sections: Sections, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.sections = sections
        self._places = {
            name: (module, variable)
            for section in sections.values()
            for name, (module, variable, _) in section.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Returns the names in the order of the table."""
        return list(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports a command; None if the table has none of this name."""
        if cmd_name not in self._places:
            return None
        module, variable = self._places[cmd_name]
        found = getattr(importlib.import_module(f"cosched.cli.{module}"), variable)
        command = getattr(found, "click_command", found)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the table, without importing the commands."""
        for heading, entries in self.sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name, line) for name, (_, _, line) in entries.items()])


def current_options(
    ctx: click.Context, command: click.Command, path: str, words: Iterable[str]
) -> list[str]:
    """Returns the words after ``path`` with today's options; warns of old ones."""
    with_value = {
        name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.is_flag
        for name in parameter.opts
    }
    found, warnings = translate_options(
        path,
        list(words),
        with_value.__contains__,
        stops_at_argument=not command.context_settings.get("allow_interspersed_args", True),
    )
    _warn(ctx, warnings)
    return found


def _warn(ctx: click.Context, warnings: Iterable[str]) -> None:
    if ctx.resilient_parsing:  # a shell completes the line
        return
    for warning in warnings:
        click.echo(f"{ctx.find_root().info_name}: warning: {warning}", err=True)
