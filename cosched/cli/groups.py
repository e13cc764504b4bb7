"""Groups of commands: they suggest a name for a misspelt one and accept old names."""

from __future__ import annotations

from collections.abc import Iterable

import click

from cosched.core.config.kinds import suggest
from cosched.core.config.old_names import translate_command, translate_options


class Group(click.Group):
    """A group that suggests and translates names. Alone it prints its help."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Versions of click differ in what they do with a group alone."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help())
            ctx.exit()
        return super().parse_args(ctx, args)

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
