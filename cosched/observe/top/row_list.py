"""Draws the table of ``cosched top``: lines of text with a cursor.

A table of cells rebuilds every cell at each update. This widget keeps each line's text and
draws only the lines that changed; drawing is most of the screen's cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table."""

    key: str  #: differs from the keys of all other lines; the cursor follows it
    pieces: tuple[tuple[str, Style], ...]  #: its text in pieces with their styles


class Rows(ScrollView, can_focus=True):
    """A heading and the rows below it, one of them under the cursor.

    The cursor follows its row's key. If that row disappears, the cursor keeps its place.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Why"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "move_to(0)", show=False),
        Binding("end", "move_to(-1)", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--heading", "rows--line", "rows--cursor"}
    DEFAULT_CSS = """
    Rows { overflow-x: hidden; scrollbar-size-vertical: 1; }
    Rows > .rows--heading { background: $panel; color: $foreground; text-style: bold; }
    Rows > .rows--line { color: $foreground; }
    Rows > .rows--cursor {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    """

    class Chosen(Message):
        """Enter, or a click, on a row."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, heading: str) -> None:
        super().__init__()
        self._heading = heading
        self._rows: tuple[Row, ...] = ()
        self._cursor = 0

    # -- content -----------------------------------------------------------------

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows, from the top."""
        return self._rows

    @property
    def cursor(self) -> int:
        """The number of the row under the cursor."""
        return self._cursor

    @property
    def chosen(self) -> str | None:
        """The key of the row under the cursor; None without rows."""
        return self._rows[self._cursor].key if self._rows else None

    def show(self, rows: Sequence[Row]) -> None:
        """Takes new rows; draws only the rows that changed."""
        before, was_at, key = self._rows, self._cursor, self.chosen
        self._rows = tuple(rows)
        keys = [row.key for row in rows]
        if key in keys:
            self._cursor = keys.index(key)
        else:
            self._cursor = max(0, min(was_at, len(rows) - 1))
        if len(before) != len(rows):
            self.virtual_size = Size(0, 1 + len(rows))
            self.refresh()
        else:
            changed = {i for i, row in enumerate(rows) if row != before[i]}
            if self._cursor != was_at:
                changed |= {was_at, self._cursor}
            for row in changed:
                self._redraw(row)
        if self._cursor != was_at:
            self._follow()

    def _redraw(self, row: int) -> None:
        y = 1 + row - self.scroll_offset.y
        if 1 <= y < self.size.height:  # the heading hides the rows scrolled behind it
            self.refresh(Region(0, y, self.size.width, 1))

    def render_line(self, y: int) -> Strip:
        """Draws one line; line 0 is the heading wherever the rows are scrolled to."""
        width = self.size.width
        if y == 0:
            style = self.get_component_rich_style("rows--heading")
            return Strip([Segment(self._heading, style)]).adjust_cell_length(width, style)
        row = y - 1 + self.scroll_offset.y
        # textual caches a component's style, but computes the widget's own at each call.
        base = self.get_component_rich_style("rows--line")
        if row >= len(self._rows):
            return Strip.blank(width, base)
        pieces = self._rows[row].pieces
        if row == self._cursor:
            over = self.get_component_rich_style("rows--cursor")
            segments = [Segment(text, over) for text, _ in pieces]
            base = over
        else:
            segments = [Segment(text, base + style) for text, style in pieces]
        return Strip(segments).adjust_cell_length(width, base)

    # -- the cursor --------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Moves the cursor up or down."""
        self._go(self._cursor + by)

    def action_page(self, by: int) -> None:
        """Moves the cursor by one screen."""
        self._go(self._cursor + by * max(1, self.size.height - 1))

    def action_move_to(self, row: int) -> None:
        """Moves the cursor to the first row, or with -1 to the last."""
        self._go(row % max(1, len(self._rows)))

    def action_choose(self) -> None:
        """Posts the key of the row under the cursor."""
        if self.chosen is not None:
            self.post_message(self.Chosen(self.chosen))

    def on_click(self, event: Click) -> None:
        """Chooses the clicked row."""
        row = event.y - 1 + self.scroll_offset.y
        if event.y > 0 and row < len(self._rows):
            self._go(row)
            self.action_choose()

    def _go(self, row: int) -> None:
        before, self._cursor = self._cursor, max(0, min(row, len(self._rows) - 1))
        if before != self._cursor:
            self._redraw(before)
            self._redraw(self._cursor)
            self._follow()

    def _follow(self) -> None:
        """Scrolls until the cursor is in view."""
        room = max(1, self.size.height - 1)
        top = self.scroll_offset.y
        wanted = min(max(top, self._cursor - room + 1), self._cursor)
        if wanted != top:
            self.scroll_to(y=wanted, animate=False)
