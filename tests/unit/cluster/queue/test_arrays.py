"""Checks how arrays and names of jobs are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.arrays import (
    INDEX_MOST,
    TASKS_MOST,
    Array,
    JobRef,
    chosen,
    indices_text,
    parse_array,
    parse_job,
    parse_jobs,
)
from cosched.core.errors import CoschedError


@pytest.mark.parametrize(
    ("text", "indices", "at_once", "step"),
    [
        ("1-4", (1, 2, 3, 4), 0, 1),
        ("0", (0,), 0, 1),
        ("1-9:2", (1, 3, 5, 7, 9), 0, 2),
        ("1,3,7-9", (1, 3, 7, 8, 9), 0, 1),
        ("5,1-3,2", (1, 2, 3, 5), 0, 1),
        ("1-100%10", tuple(range(1, 101)), 10, 1),
        ("1-3%10", (1, 2, 3), 3, 1),
    ],
)
def test_arrays(text, indices, at_once, step):
    assert parse_array(text) == Array(indices, at_once, step)


_WORDS = " a 1- -1 3-1 1-9:0 1-4% 1-4%0 1-4%x 1,,2 1-4:2:3 1-1000000"
_LONG = (f"0-{INDEX_MOST + 1}", "1-9999,1-9999", "1" * 5000, "9" * 15, "9" * 16)


@pytest.mark.parametrize("text", [*_WORDS.split(" "), *_LONG, "1 2", "\u0661-3"])
def test_other_texts_are_one_line(text):
    with pytest.raises(CoschedError) as error:
        parse_array(text)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 200


def test_the_largest_array():
    assert len(parse_array(f"1-{TASKS_MOST}").indices) == TASKS_MOST


@pytest.mark.parametrize(
    ("text", "number", "tasks"),
    [
        ("12", 12, []),
        ("12_3", 12, [3]),
        ("12_1-3", 12, [1, 2, 3]),
        ("12_[1-3,7]", 12, [1, 2, 3, 7]),
        ("12_1-5:2", 12, [1, 3, 5]),
    ],
)
def test_names_of_jobs(text, number, tasks):
    found = parse_job(text, "JOB")
    assert found.number == number
    assert str(found) == text
    assert chosen(found, range(10)) == (tasks or list(range(10)))


@pytest.mark.parametrize(
    "text", ["", "0", "x", "12_", "12_x", "12_[]", "12_[1", "_3", "12_3_4", "12_3-1"]
)
def test_other_names_are_one_line(text):
    with pytest.raises(CoschedError, match=r"^--after: .*(is not a job|is not from 1 to)"):
        parse_job(text, "--after")


def test_a_list_of_jobs():
    found = parse_jobs("12,13_4,14_[1,3]", "--after")
    assert [str(each) for each in found] == ["12", "13_4", "14_[1,3]"]
    assert found[0] == JobRef(12)
    with pytest.raises(CoschedError, match="more than 500 jobs"):
        parse_jobs(",".join(["1"] * 501), "--after")


@given(st.sets(st.integers(0, 500), min_size=1))
def test_short_texts_mean_the_same(indices):
    text = indices_text(sorted(indices))
    assert parse_array(text).indices == tuple(sorted(indices))
