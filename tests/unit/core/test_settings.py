"""Durations and settings: texts are parsed and written, and mistakes get one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.core.units import NS_PER_MS, NS_PER_S, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1s", NS_PER_S),
        ("0.5s", NS_PER_S // 2),
        (".25s", NS_PER_S // 4),
        ("100ms", 100 * NS_PER_MS),
        (" 2 min ", 120 * NS_PER_S),
        ("7us", 7_000),
        ("3ns", 3),
    ],
)
def test_parse_duration_reads_usual_texts(text, ns):
    assert parse_duration(text, "slice") == ns


@pytest.mark.parametrize("text", ["", "1", "s", "-1s", "1 second", "1e3s", "nan s", "1s2"])
def test_parse_duration_names_the_setting_in_errors(text):
    with pytest.raises(CoschedError, match=r"gmet: .* is not a duration"):
        parse_duration(text, "gmet")


@pytest.mark.parametrize("text", ["20000000000s", "9" * 400 + "s", "1" + "0" * 30 + "min"])
def test_parse_duration_rejects_too_long_times(text):
    with pytest.raises(CoschedError, match=r"gmet: '.{1,40}' is too long; write less than"):
        parse_duration(text, "gmet")


@pytest.mark.parametrize("name", ["slice", "gmet"])
def test_settings_reject_more_than_a_year(name):
    for text in ("366000000s", "auto:366000000s") if name == "slice" else ("366000000s",):
        with pytest.raises(CoschedError, match=f"{name}: .* is too long; the most is"):
            Settings().changed({name: text})


@given(st.integers(0, 9 * 10**18))
def test_formatted_duration_parses_to_itself(ns):
    assert parse_duration(format_duration(ns), "x") == ns


@pytest.mark.parametrize("text", ["30min", "90s", "1h", "36h", "2d", "1min", "1.5s", "0ns"])
def test_usual_durations_are_written_as_users_write_them(text):
    assert format_duration(parse_duration(text)) == text


def test_settings_change_by_name():
    settings = Settings().changed({"slice": "2s", "gmet": "0.1s", "align": "off"})
    assert settings == Settings(2 * NS_PER_S, 100 * NS_PER_MS, False)


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ({"slyce": "1s"}, "'slyce' is not a setting"),
        ({"slice": "0.9ms"}, "too short"),
        ({"align": "maybe"}, "neither on nor off"),
        ({"gmet": "soon"}, "not a duration"),
    ],
)
def test_bad_setting_raises_one_clear_line(assignments, words):
    with pytest.raises(CoschedError, match=words) as caught:
        Settings().changed(assignments)
    assert "\n" not in str(caught.value)


def test_gmet_above_the_slice_is_a_warning():
    (warning,) = Settings(slice_ns=NS_PER_S, gmet_ns=2 * NS_PER_S).warnings()
    assert "only the timer switches" in warning
    assert Settings().warnings() == ()


def test_slice_that_ends_before_a_switch_is_a_warning():
    (warning,) = Settings(slice_ns=10 * NS_PER_MS, gmet_ns=NS_PER_MS).warnings()
    assert warning.startswith("slice 10ms is below 20ms: it ends before a switch")
