"""Rates of links as text and as numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.rates import RATE_LEAST, RATE_MOST, format_rate, parse_rate


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("1gbit", 10**9),
        ("100mbit", 10**8),
        ("1.5 Gbit/s", 1_500_000_000),
        ("100kbit", RATE_LEAST),
        ("30Gbit", RATE_MOST),
        (".5MBIT", 500_000),
    ],
)
def test_units_are_decimal(text, bits):
    assert parse_rate(text) == bits


@pytest.mark.parametrize("text", ["", "1", "1gb", "1tbit", "-1mbit", "1e3mbit", "1gbit 2"])
def test_other_texts_are_refused_in_a_line(text):
    with pytest.raises(CoschedError, match=r"^--rate: '.*' is not a rate; write it like"):
        parse_rate(text, "--rate")


@pytest.mark.parametrize("text", ["0gbit", "99.9kbit", "30.1gbit", "9" * 300 + "gbit"])
def test_rates_out_of_range_are_refused_in_a_line(text):
    with pytest.raises(CoschedError, match=r"^--rate: '.{1,40}' is out of range; write"):
        parse_rate(text, "--rate")


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (10**9, "1 Gbit/s"),
        (1_500_000, "1.5 Mbit/s"),
        (RATE_LEAST, "100 kbit/s"),
        (RATE_MOST, "30 Gbit/s"),
    ],
)
def test_rate_has_the_greatest_unit_below_it(bits, text):
    assert format_rate(bits) == text


@given(st.integers(RATE_LEAST, RATE_MOST))
def test_written_rate_is_read_back_exactly(bits):
    assert parse_rate(format_rate(bits)) == bits
