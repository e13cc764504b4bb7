"""Lays out tables: as plain text of at most 80 columns, and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 80


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    align: str,
    *,
    indent: int = 0,
    gap: int = 2,
    width: int = WIDTH,
) -> list[str]:
    """Returns the lines of a table, without spaces at their ends.

    ``head``: the columns' titles; empty if the table needs none. ``align``: one character
    a column: ``<`` for left, ``>`` for right. ``indent``: spaces before each line.
    ``gap``: spaces between two columns. A cell may have several lines. If the table is
    too wide, its left-aligned columns are cut, the widest first.
    """
    grid = Table(
        box=None,
        pad_edge=False,
        padding=(0, gap, 0, 0),
        show_header=bool(head),
        expand=False,
    )
    for at, side in enumerate(align):
        grid.add_column(
            _cell(head[at]) if head else "",
            justify="left" if side == "<" else "right",
            vertical="bottom",
            no_wrap=side == ">",
        )
    for row in rows:
        grid.add_row(*map(_cell, row))
    text = StringIO()
    console = Console(file=text, width=width - indent, color_system=None)
    console.print(grid)
    margin = " " * indent
    return [(margin + line).rstrip() for line in text.getvalue().splitlines()]


def cut_inside(text: str, most: int) -> str:
    """Returns a name in at most ``most`` characters. It loses its middle, because the ends
    of names differ. An end after a hyphen is kept alone: ``wavefr…-4711``."""
    if len(text) <= most:
        return text
    tail = (most - 1) * 2 // 3
    end = len(text) - text.rfind("-")
    tail = end if end <= tail else tail
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table in Markdown."""
    return [_row(head), "|" + "---|" * len(head), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return "|" + "".join(f" {cell} |" if cell else " |" for cell in cells)


def _cell(text: str) -> Text:
    # Column.no_wrap only decides which columns may shrink; no cell is ever wrapped.
    return Text(text, no_wrap=True, overflow="ellipsis")
