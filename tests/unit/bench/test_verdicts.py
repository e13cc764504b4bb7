"""The four verdicts on claims of papers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.verdicts import (
    BOUNDS,
    DIRECTION,
    NO,
    UNDECIDED,
    Measured,
    exact,
    judge_above,
    judge_amount,
    judge_below,
    judge_cases,
    judge_value,
    over_cases,
)

VALUES = st.floats(0.01, 100)
FIGURES = st.lists(VALUES, min_size=1, max_size=5).map(over_cases)


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (exact(0.5), (0.5,), "within 1%"),
        (Measured(0.5, 0.48, 0.53), (0.5,), "within 10%"),
        (exact(0.49), (0.15,), DIRECTION),
        (Measured(0.9, 0.8, 1.1), (0.15,), UNDECIDED),
        (Measured(1.0, 0.97, 1.02), (0.15,), NO),
        (exact(1.7), (0.15,), NO),
        (exact(4.0), (7,), DIRECTION),
        (exact(0.9), (7,), NO),
        (exact(26), (70, float("inf")), DIRECTION),
        (exact(100), (70, float("inf")), "within 1%"),
        (Measured(2.0, 1.0, 5.0), (2, 20), UNDECIDED),
        (exact(1.04), (1.0,), "within 5%"),
        (exact(1.9), (1.0,), NO),
        (Measured(1.3, 1.1, 1.9), (1.0,), UNDECIDED),
    ],
)
def test_value_beside_the_papers(ours, paper, verdict):
    assert judge_value(ours, *paper) == verdict


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (exact(0.6), NO),  # another size alone refutes a rate
        (Measured(0.02, 0.006, 0.032), "within 1%"),
        (Measured(0.05, 0.03, 0.09), UNDECIDED),
        (Measured(0.6, 0.6, 0.6, repeated=False), UNDECIDED),
    ],
)
def test_rate_has_no_side(ours, verdict):
    assert judge_amount(ours, 0.005, 0.033) == verdict


def test_effect_may_have_another_neutral_value():
    assert judge_value(exact(0.10), 0.15, no_effect=0) == DIRECTION
    assert judge_value(exact(0.10), 0.15) == DIRECTION
    assert judge_value(exact(0.9), 1.8, no_effect=1) == NO


@given(FIGURES, VALUES)
def test_single_run_refutes_nothing(figure, paper):
    single = Measured(figure.middle, figure.low, figure.high, repeated=False)
    verdicts = (judge_value(single, paper), judge_above(single), judge_below(single))
    assert NO not in verdicts
    assert single.less_than(figure) is not False


@given(FIGURES, VALUES)
def test_within_means_each_run(figure, paper):
    verdict = judge_value(figure, paper)
    if verdict.startswith("within"):
        bound = int(verdict.split()[1].rstrip("%"))
        assert bound in BOUNDS
        farthest = max(figure.high / paper, paper / figure.low)
        assert farthest <= 1 + bound / 100 + 1e-6


@given(FIGURES)
def test_a_figure_is_not_both_above_and_below(figure):
    assert not judge_above(figure) == judge_below(figure) == DIRECTION


@given(FIGURES, FIGURES)
def test_ratio_contains_the_ratio_of_any_two_runs(one, other):
    ratio = one.over(other)
    assert ratio.low <= ratio.middle * (1 + 1e-9)
    assert ratio.middle <= ratio.high * (1 + 1e-9)
    assert one.less_than(other) is not True or ratio.high < 1


def test_cases():
    assert judge_cases([True, True]) == DIRECTION
    assert judge_cases([True, None]) == UNDECIDED
    assert judge_cases([True, False]) == NO
    assert judge_cases([True] * 19 + [False]) == UNDECIDED
    assert over_cases([3, 1, 2]) == Measured(2, 1, 3)
