from __future__ import annotations

from io import StringIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cosched.tables import cut_inside, table


def test_table_aligns_columns():
    assert table(("job", "CPU"), [("a", "1.25"), ("long", "10.50")], "<>") == [
        "job     CPU",
        "a      1.25",
        "long  10.50",
    ]


def test_table_without_head_has_rows_only():
    assert table((), [("a", "b"), ("cc", "d")], "<<") == ["a   b", "cc  d"]


def test_table_without_rows_has_head_only():
    assert table(("job", "CPU"), [], "<>") == ["job  CPU"]


def test_table_has_no_spaces_at_line_ends():
    assert table(("a", "b"), [("x", "")], "<<") == ["a  b", "x"]


def test_table_too_wide_cuts_left_aligned_column():
    lines = table(("job", "n"), [("j" * 100, "123456")], "<>")
    assert lines[1] == "j" * 71 + "…  123456"
    assert max(map(len, lines)) == 80


def test_table_indent_counts_as_width():
    lines = table(("job", "n"), [("j" * 100, "1")], "<>", indent=4)
    assert lines[0].startswith("    job")
    assert max(map(len, lines)) == 80


@pytest.mark.parametrize("text", ["[red]x[/red]", ":smile:", "a  b", "http://a.b/1"])
def test_table_prints_cells_as_they_are(text):
    assert table((), [(text,)], "<") == [text]


def test_table_head_of_two_lines_stands_above_rows():
    assert table(("job", "CPU\ns"), [("a", "1")], "<>") == [
        "     CPU",
        "job    s",
        "a      1",
    ]


def test_table_has_no_colours_on_a_terminal(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "20")
    assert table(("job",), [("a" * 30,)], "<") == ["job", "a" * 30]


def test_names_are_cut_in_their_middle():
    assert cut_inside("wavefront-4711", 20) == "wavefront-4711"
    assert cut_inside("wavefront-4711", 14) == "wavefront-4711"
    assert cut_inside("wavefront-4711", 12) == "wavefr…-4711"
    assert cut_inside("wavefront-4711", 12) != cut_inside("wavefront-4712", 12)


def test_end_of_a_name_leaves_room_for_the_program():
    assert cut_inside("wavefront-54uqa", 12) == "wavef…-54uqa"
    assert cut_inside("a-program-of-long-name", 12) == "a-prog…-name"
    assert cut_inside("a-very-longprogram", 12) == "a-ve…program"


def with_rich(head, rows, align, gap, width):
    """Returns the table as rich lays it out."""
    grid = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), expand=False)
    for title, side in zip(head, align, strict=True):
        justify = "left" if side == "<" else "right"
        grid.add_column(
            cell(title), justify=justify, vertical="bottom", no_wrap=side == ">"
        )
    for row in rows:
        grid.add_row(*map(cell, row))
    text = StringIO()
    Console(file=text, width=width, color_system=None).print(grid)
    return [line.rstrip() for line in text.getvalue().splitlines()]


def cell(text):
    return Text(text, no_wrap=True, overflow="ellipsis")


WORDS = st.text("abé日 -…", min_size=1, max_size=40).map(lambda text: f"x{text}x")
CELLS = st.lists(WORDS, min_size=1, max_size=2).map("\n".join)


@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS, st.integers(0, 10**6).map(str)), max_size=4),
    st.permutations("<<<>").map("".join),
    st.integers(1, 2),
    st.integers(40, 300),
)
@example([("日" * 10, "b" * 30, "c" * 30, "12")], "<<<>", 2, 41)
def test_the_layout_is_that_of_rich_but_for_equal_columns_of_a_table_too_wide(
    rows, align, gap, width
):
    numbers = align.index(">")
    rows = [(*row[:numbers], row[3], *row[numbers:3]) for row in rows]
    head = ("one", "two\nlines", "three", "four")
    found = table(head, rows, align, gap=gap, width=width)
    wanted = with_rich(head, rows, align, gap, width)
    whole = with_rich(head, rows, align, gap, 1000)
    if max(map(cell_len, whole)) <= width:
        assert found == wanted == whole
        return
    assert max(map(cell_len, found)) <= width
    assert len(found) == len(wanted)
    for row in rows:
        assert any(row[numbers] in line for line in found)


def test_columns_of_numbers_are_cut_last():
    lines = table(("a", "b"), [("1" * 60, "2" * 60)], ">>")
    assert max(map(len, lines)) == 80
