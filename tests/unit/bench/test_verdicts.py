"""The verdicts on claims of papers, and that each judge can refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.experiments.claims import NOT_HERE, Claim, counted, judged, near
from benchmarks.experiments.verdicts import (
    BOUNDS,
    DIRECTION,
    HOLDS,
    NO,
    UNDECIDED,
    Above,
    Below,
    Cases,
    Measured,
    Near,
    Order,
    Points,
    cases,
    exact,
    judge,
    over_cases,
    points,
)
from tests.unit.bench.refuting import refuting

VALUES = st.floats(0.01, 100)
FIGURES = st.lists(VALUES, min_size=1, max_size=5).map(over_cases)
JUDGES = st.one_of(
    st.builds(Near, VALUES),
    st.builds(lambda low, wide: Near(low, low * (1 + wide)), VALUES, VALUES),
    st.tuples(VALUES, VALUES)
    .filter(lambda two: abs(two[0] - two[1]) > 0.01)
    .map(lambda two: Near(two[0], None, two[1])),
    st.builds(Below, VALUES),
    st.builds(Above, VALUES),
    st.builds(Above, VALUES, st.floats(0, 0.2)),
    st.builds(Below, VALUES, st.floats(0, 0.2)),
    st.builds(Order, st.integers(0, 3)),
)


@given(JUDGES)
def test_each_judge_can_say_no(by):
    assert judge(by, refuting(by)) == NO


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (exact(0.5), (0.5, None, 1), "within 1%"),
        (Measured(0.5, 0.48, 0.53), (0.5, None, 1), "within 10%"),
        (exact(0.49), (0.15, None, 1), DIRECTION),
        (Measured(0.9, 0.8, 1.1), (0.15, None, 1), NO),  # far away, and no certain effect
        (Measured(0.2, 0.15, 1.1), (0.15, None, 1), UNDECIDED),
        (Measured(1.0, 0.97, 1.02), (0.15, None, 1), NO),
        (exact(1.7), (0.15, None, 1), NO),
        (exact(4.0), (7, None, 1), DIRECTION),
        (exact(0.9), (7, None, 1), NO),
        (Measured(2.0, 1.0, 5.0), (2, 20, 1), UNDECIDED),
        (exact(30), (2, 20, 1), DIRECTION),
        (exact(1.02), (1.15, None, 1), NO),  # within 15%, but without the effect
        (Measured(0.95, 0.88, 1.02), (0.9, None, 1), UNDECIDED),
        (exact(0.4), (42, None, 0), NO),  # a hundredth of the effect is none
        (exact(-3), (42, None, 0), NO),
        (exact(5), (42, None, 0), DIRECTION),
        (exact(0.1), (3, 14, 0), NO),
        (Measured(5, -1, 9), (42, None, 0), NO),
        (exact(-1), (-42, None, 0), NO),
        (exact(-20), (-42, None, 0), DIRECTION),
    ],
)
def test_value_with_an_effect_beside_the_papers(ours, paper, verdict):
    assert judge(Near(*paper), ours) == verdict


@pytest.mark.parametrize(
    ("ours", "paper", "verdict"),
    [
        (exact(0.6), (0.005, 0.033), NO),  # another size alone refutes a rate
        (exact(1.11), (2,), NO),
        (exact(1.04), (1.0,), "within 5%"),
        (exact(75), (150,), NO),
        (Measured(0.02, 0.006, 0.032), (0.005, 0.033), "within 1%"),
        (Measured(0.05, 0.03, 0.09), (0.005, 0.033), UNDECIDED),
        (Measured(0.6, 0.6, 0.6, repeated=False), (0.005, 0.033), UNDECIDED),
        (Measured(1.3, 1.1, 1.9), (1.0,), UNDECIDED),
    ],
)
def test_value_without_a_side_has_no_direction(ours, paper, verdict):
    assert judge(Near(*paper), ours) == verdict


@given(FIGURES, VALUES)
def test_value_without_a_side_never_gets_direction_only(figure, paper):
    assert judge(Near(paper), figure) != DIRECTION


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (exact(500), NO),
        (Measured(11, 10, 12), NO),
        (Measured(9, 8, 9.9), HOLDS),
        (Measured(0, -3, 9.9), HOLDS),  # no effect at all keeps a bound, too
        (Measured(9, 8, 10.1), UNDECIDED),
        (Measured(500, 500, 500, repeated=False), UNDECIDED),
    ],
)
def test_bound(ours, verdict):
    assert judge(Below(10), ours) == verdict
    upside_down = Measured(-ours.middle, -ours.high, -ours.low, ours.repeated)
    assert judge(Above(-10), upside_down) == verdict


def test_figure_beside_a_bound_of_no_effect_may_be_equal():
    assert judge(Above(1.0, 0.05), Measured(1.0, 0.9, 1.04)) == NO
    assert judge(Above(1.0), Measured(1.0, 0.9, 1.04)) == UNDECIDED


def test_claim_about_points_is_about_each():
    assert judge(Below(10), points([1, 2, 11])) == NO
    assert judge(Below(10), points([1] * 19 + [11])) == UNDECIDED
    assert judge(Below(10), Points((exact(1), Measured(9, 8, 12)))) == UNDECIDED
    assert judge(Near(35, 111), points([44, 61])) == "within 1%"
    assert judge(Near(100), points([101, 109])) == "within 10%"
    assert judge(Near(2, 20, 1), points([3, 50])) == DIRECTION


def test_order():
    assert judge(Order(), Cases(2, 0)) == HOLDS
    assert judge(Order(), Cases(1, 0, 1)) == UNDECIDED
    assert judge(Order(), Cases(1, 1)) == NO
    assert judge(Order(), Cases(19, 1)) == DIRECTION
    assert judge(Order(), Cases(18, 1, 1)) == DIRECTION
    assert judge(Order(), Cases(17, 1, 2)) == UNDECIDED
    assert judge(Order(), Cases(0, 0)) == UNDECIDED
    assert judge(Order(but=1), Cases(5, 1)) == HOLDS
    assert judge(Order(but=1), Cases(4, 2)) == NO
    assert judge(Order(), Cases(0, 0)) == UNDECIDED  # nothing was looked at
    assert judge(Order(but=1), Cases(0, 0)) == UNDECIDED
    assert cases([True, False, None, True]) == Cases(2, 1, 1)


def test_judge_is_for_one_kind_of_finding():
    for by, ours in ((Order(), exact(1)), (Below(1), Cases(1, 0))):
        with pytest.raises(ValueError, match="cannot judge"):
            judge(by, ours)


@given(JUDGES, FIGURES)
def test_single_run_decides_nothing(by, figure):
    """It refutes nothing, and it confirms nothing either."""
    if isinstance(by, Order):
        return
    single = Measured(figure.middle, figure.low, figure.high, repeated=False)
    assert judge(by, single) == UNDECIDED
    assert judge(by, Points((single,))) == UNDECIDED
    assert single.less_than(figure) is figure.less_than(single) is None


@given(FIGURES, VALUES)
def test_within_means_each_run(figure, paper):
    verdict = judge(Near(paper), figure)
    if verdict.startswith("within"):
        bound = int(verdict.split()[1].rstrip("%"))
        assert bound in BOUNDS
        farthest = max(figure.high / paper, paper / figure.low)
        assert farthest <= 1 + bound / 100 + 1e-6


@given(FIGURES)
def test_a_figure_is_not_both_above_and_below(figure):
    assert not judge(Above(1.0), figure) == judge(Below(1.0), figure) == HOLDS


@given(FIGURES, FIGURES)
def test_ratio_contains_the_ratio_of_any_two_runs(one, other):
    ratio = one.over(other)
    assert ratio.low <= ratio.middle * (1 + 1e-9)
    assert ratio.middle <= ratio.high * (1 + 1e-9)
    assert one.less_than(other) is not True or ratio.high < 1


def test_cases_have_an_extent():
    assert over_cases([3, 1, 2]) == Measured(2, 1, 3)


def test_reason_stands_beside_a_verdict_that_needs_it():
    reason = "it was tried"
    assert judged("1", "x", "2", exact(9), near(2), why=reason).shown == f"{NO}: {reason}"
    assert judged("1", "x", "2", exact(2), near(2), why=reason).shown == "within 1%"
    assert counted("1", "x", "yes", [True, None], why=reason).shown == (
        f"{UNDECIDED}: {reason}"
    )
    apart = Claim("1", "x", "2", "9", exact(9), near(2), NOT_HERE, reason)
    assert (apart.verdict, apart.shown) == (NOT_HERE, f"{NOT_HERE}: {reason}")
    assert judged("1", "x", "2", None, near(2)).verdict == ""
