"""A command is one class: each option is declared once, as a field."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cosched.cli.declared import Command, argument, command, flag, option, part
from cosched.cli.entry import run_cli
from cosched.cli.values import SIZE, TIME, several, whole
from tests.places import ROOT
from tests.tools.sources import nodes_of, python_files


@dataclass(frozen=True)
class Recipe:
    length_ns: int
    jobs: int = 7
    seed: int = 0
    limit_ns: int | None = 2_000_000_000


@command("make")
class Make(Command):
    """Make something.

    \b
    Example:
      make out
    """

    out: Path = argument(type=click.Path(path_type=Path))
    recipe: Recipe = part(
        Recipe,
        length_ns=option("--length", type=TIME, default="1s", help="How long."),
        jobs=option(type=int, help="How many."),
        seed=option(type=int),
        limit_ns=option("--limit", type=TIME),
    )
    size_bytes: int = option("--size", type=SIZE, default="1K")
    ranks: tuple[int, ...] = option(type=several("N,...", whole(1, 9)), default="1,2")
    dry_run: bool = flag(help="Only print.")

    def __post_init__(self) -> None:
        if self.dry_run and self.size_bytes == 2:
            raise click.UsageError("--dry-run and --size 2 cannot be combined.")

    def run(self) -> int:
        click.echo(repr(self))
        return 3


def made(*words):
    return CliRunner().invoke(Make.click_command, words).output.strip()


def test_fields_get_the_values_of_the_options():
    words = ("--length", "2min", "--jobs", "1", "--seed", "5", "--limit", "3ms")
    words += ("--size", "2K", "--ranks", "3,1,3", "--dry-run", "o")
    recipe = Recipe(120 * 10**9, 1, 5, 3_000_000)
    assert made(*words) == repr(Make(Path("o"), recipe, 2048, (3, 1), True))


def test_defaults_are_those_of_the_fields():
    assert made("o") == repr(Make(Path("o"), Recipe(10**9), 1024, (1, 2), False))


def test_help_shows_names_units_and_defaults():
    context = click.Context(Make.click_command, info_name="make", show_default=True)
    printed = " ".join(Make.click_command.get_help(context).split())
    for words in (
        "Usage: make [OPTIONS] OUT Make something. Example: make out Options:",
        "--length TIME How long. [default: 1s]",
        "--jobs INTEGER How many. [default: 7]",
        "--limit TIME [default: 2s]",
        "--ranks N,... [default: 1,2]",
        "--dry-run Only print.",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("words", "status", "line"),
    [
        (["o"], 3, ""),
        (["--ranks", "0", "o"], 2, "make: Invalid value for '--ranks': '0' is not"),
        (["--length", "soon", "o"], 1, "make: --length: 'soon' is not a duration;"),
        (["--dry-run", "--size", "2", "o"], 2, "make: --dry-run and --size 2 cannot be"),
    ],
)
def test_status_and_errors_are_one_line(words, status, line, capsys):
    assert run_cli(Make.click_command, words) == status
    printed = capsys.readouterr().err
    assert printed.startswith(line)
    assert printed.count("\n") == bool(line)


def test_no_command_declares_options_in_another_way():
    """``click.option`` stands in the mechanism, and for options without a value of their
    own."""
    found = {
        str(path.relative_to(ROOT))
        for path in python_files("cosched/cli")
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute)
        and node.attr in ("option", "argument", "pass_context")
        and isinstance(node.value, ast.Name)
        and node.value.id == "click"
    }
    assert found == {
        "cosched/cli/declared.py",
        "cosched/cli/options.py",
        "cosched/cli/sim/options.py",
    }
