"""A table of chosen columns that is too wide gives up dates before letters of names."""

from __future__ import annotations

import time

from cosched.core.units import NS_PER_S
from cosched.observe.table_columns import DATE, TEXT, Column, Columns

COLUMNS = Columns(
    "x",
    {
        "ended": Column(DATE, lambda row: row[0]),
        "job": Column(TEXT, lambda row: row[1]),
        "more": Column(TEXT, lambda row: row[2]),
    },
    {},
    cut="job",
)
NAMES = ("ended", "job", "more")


def shown(name, more, age_s=60):
    rows = [(time.time_ns() - age_s * NS_PER_S, name, more)]
    return COLUMNS.shown(NAMES, rows)[-1]


def test_table_that_fits_keeps_dates_and_names():
    date, _, name, _ = shown("wavefront-54uqa", "x" * 40).split()
    assert len(date) == len("11-29")
    assert name == "wavefront-54uqa"


def test_wide_table_gives_up_dates_of_today_before_letters_of_names():
    line = shown("wavefront-54uqa", "x" * 54)
    assert line.split()[1] == "wavefront-54uqa"
    assert len(line) <= 80
    assert "-" not in line.split()[0]


def test_names_are_cut_once_dates_are_short():
    assert shown("wavefront-54uqa", "x" * 58).split()[1] == "wavef…-54uqa"


def test_old_dates_lose_their_seconds():
    _, clock, name, _ = shown("wavefront-54uqa", "x" * 51, age_s=3 * 86400).split()
    assert name == "wavefront-54uqa"
    assert clock.count(":") == 1
