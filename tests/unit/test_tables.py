from __future__ import annotations

import pytest

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
