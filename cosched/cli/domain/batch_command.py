"""Puts the options of a batch script before those of the command line.

The command line comes last, so its options win. ``#COSCHED`` lines win over ``#SBATCH``
lines, and later lines over earlier ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from cosched.cli.domain.script_lines import (
    COSCHED,
    NO_SCRIPT,
    SBATCH,
    SCRIPT_VARIABLE,
    Script,
    ScriptLine,
    file_of,
    read_script,
)
from cosched.core.config.suggestions import suggest
from cosched.core.errors import CoschedError

_KEY = "cosched.script"


def script_of(context: click.Context) -> Script:
    """Returns the script of a command line that was read, or ``NO_SCRIPT``."""
    found: Script = context.meta.get(_KEY, NO_SCRIPT)
    return found


class BatchCommand(click.Command):
    """A command whose PROGRAM may be a script with options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the command line behind the options of its script."""
        path = file_of(self._program(ctx, args))
        text, lines = ("", []) if path is None else read_script(path)
        script = NO_SCRIPT
        if path is not None and text:
            script = Script(text, {SCRIPT_VARIABLE: os.path.abspath(path)})
        options: list[str] = []
        slurm = [line for line in lines if line.kind == SBATCH]
        if slurm:
            from cosched.cli.domain.sbatch_lines import Translated, translate

            found = Translated()
            for line in slurm:
                self._check(ctx, line._replace(words=tuple(translate(found, line))))
            options += found.options
            script = script._replace(
                environ={**script.environ, **found.environ},
                slots=found.slots,
                slurm=True,
                notes=found.notes,
            )
        for line in lines:
            if line.kind == COSCHED:
                self._check(ctx, line)
                options += line.words
        ctx.meta[_KEY] = script  # last: a check of options writes there, too
        return super().parse_args(ctx, [*options, *args])

    def _program(self, ctx: click.Context, args: Sequence[str]) -> str:
        """Returns the first word of PROGRAM; empty if the line has none, or a mistake that
        is reported later."""
        try:
            given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError:
            return ""
        program: Any = given.get("argv")
        # Without PROGRAM it is another value, not the same in all versions of click.
        return program[0] if isinstance(program, tuple) and program else ""

    def _check(self, ctx: click.Context, line: ScriptLine) -> None:
        """Reads the options of one line by themselves. Raises CoschedError with its place
        and the option if one is wrong."""
        problem = self._problem_of(ctx, line.words)
        if problem:
            where = f"{line.place}: {line.kind}"
            raise CoschedError(f"{where} {problem}{_see(ctx, problem)}")

    def _problem_of(self, ctx: click.Context, words: Sequence[str]) -> str:
        """Returns which option is wrong, and why; empty if none is."""
        if "--help" in words:
            return "--help: is only for the command line"
        try:
            alone = self.make_context(ctx.info_name, list(words), parent=ctx.parent)
        except click.UsageError as error:
            return _in_words(error, words)
        except CoschedError as error:
            return str(error)
        program = alone.params.get("argv")
        return f"'{program[0]:.60}': is no option" if program else ""

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. Options that do not go together may stand in the script."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            path = script_of(ctx).environ.get(SCRIPT_VARIABLE)
            if path is None:
                raise
            problem = error.format_message()
            raise CoschedError(
                f"{os.path.relpath(path)}: its options and those of the command line: "
                f"{problem}{_see(ctx, problem)}"
            ) from None


def _in_words(error: click.UsageError, words: Sequence[str]) -> str:
    """Returns which of these words is wrong, and why."""
    if isinstance(error, click.NoSuchOption):
        hint = suggest(error.option_name, error.possibilities or ())
        return f"{error.option_name}: no such option{hint}"
    if isinstance(error, click.BadParameter) and error.param is not None:
        names = error.param.opts
        given = next((word for word in words if word.partition("=")[0] in names), names[-1])
        return f"{given.partition('=')[0]}: {error.message}"
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name}: {error.message}"
    return error.format_message()


def _see(ctx: click.Context, problem: str) -> str:
    """Returns the end of an error: where the options are explained."""
    return f"{'' if problem.endswith(('.', '?')) else '.'} See {ctx.command_path} --help."
