"""Lays out tables and sentences: as plain text of at most 80 columns, and in Markdown.

It lays out as rich does, whose import would be a third of the start of a command.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

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
    all_rows = [[cell.splitlines() or [""] for cell in row] for row in rows]
    if head:
        all_rows.insert(0, [title.splitlines() or [""] for title in head])
    widths = [
        max((_columns(line) for row in all_rows for line in row[at]), default=0)
        for at in range(len(align))
    ]
    room = width - indent - gap * (len(align) - 1)
    widths = _fitted(widths, [side == "<" for side in align], room)
    widths = _fitted(widths, [True] * len(align), room)
    found = []
    for row in all_rows:
        height = max(map(len, row))
        # The last lines of all cells of a row stand beside each other.
        filled = [[""] * (height - len(cell)) + cell for cell in row]
        for texts in zip(*filled, strict=True):
            cells = map(cell, texts, align, widths)
            found.append((" " * indent + (" " * gap).join(cells)).rstrip())
    return found


def _fitted(widths: Sequence[int], may_shrink: Sequence[bool], room: int) -> list[int]:
    """Returns widths that fill the room at most, as far as columns may shrink: the widest
    ones do, to the width of the next one and so on."""
    fitted = list(widths)
    while (excess := sum(fitted) - room) > 0:
        able = [at for at, may in enumerate(may_shrink) if may and fitted[at] > 1]
        if not able:
            break
        widest = max(fitted[at] for at in able)
        shrinking = [at for at in able if fitted[at] == widest]
        lower = max((fitted[at] for at in able if fitted[at] < widest), default=1)
        for done, at in enumerate(shrinking):
            share = -(-excess // (len(shrinking) - done))
            lost = min(share, widest - lower)
            fitted[at] -= lost
            excess -= lost
    return fitted


def cell(text: str, side: str, width: int) -> str:
    """Returns a line in this many columns: at their left side ``<`` or right side ``>``."""
    text = cut(text, width)
    padding = " " * (width - _columns(text))
    return padding + text if side == ">" else text + padding


def cut(text: str, width: int) -> str:
    """Returns a line in at most this many columns; one that is cut ends with a mark."""
    if _columns(text) <= width:
        return text
    while text and _columns(text) > width - 1:
        text = text[:-1]
    # Half of a wide letter is left as a space.
    return f"{text}{' ' * (width - 1 - _columns(text))}…"


def _columns(text: str) -> int:
    """Returns how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_width_of, text))


def _width_of(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1


def wrapped(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Returns the lines of a text. All but the first stand two columns further in."""
    first = " " * indent
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=f"{first}  ")


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
