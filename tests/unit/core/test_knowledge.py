"""Computes the cost of a job from jobs that have ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.node.knowledge import (
    REMEMBERED,
    Ended,
    Expectation,
    Knowledge,
    cost_of_rests_ns,
    doubled_ns,
    estimate,
)
from cosched.core.units import NS_PER_S

S = NS_PER_S
TIMES = st.integers(0, 1000 * S)
LENGTHS = st.lists(st.integers(1, 1000 * S), min_size=1, max_size=8)


def cost_s(age_s, lengths_s):
    lengths_ns = [round(length_s * S) for length_s in lengths_s]
    return estimate(round(age_s * S), lengths_ns, S).cost_ns / S


@pytest.mark.parametrize(("age_s", "left_s"), [(0, 8), (3, 5), (7.5, 0.5), (8.5, 0.5)])
def test_cost_is_the_rest_if_all_lengths_are_equal(age_s, left_s):
    assert cost_s(age_s, [8]) == cost_s(age_s, [8, 8, 8]) == left_s


def test_cost_of_two_lengths_is_the_time_per_end():
    # One of two ends after 1 s: both take 1 s until then. To see both end takes 1 + 99 s.
    assert cost_s(0, [1, 99]) == 2
    assert cost_s(0, [10, 12]) == 11, "together they are better"
    assert cost_s(2, [1, 99]) == 97, "the short one is out of the question"


def test_cost_of_an_unknown_job_doubles_with_its_age():
    assert [cost_s(age_s, []) for age_s in (0, 0.9, 1, 2, 3.9, 4, 70)] == [
        *(1, 1, 2, 4, 4, 8, 128)
    ]


@given(TIMES, TIMES)
def test_unknown_job_never_gets_cheaper(age_ns, other_ns):
    young_ns, old_ns = sorted((age_ns, other_ns))
    assert young_ns < doubled_ns(young_ns, S) <= doubled_ns(old_ns, S)
    assert doubled_ns(old_ns, S) <= max(S, 2 * old_ns)


def test_outlived_job_rises_to_the_cost_of_an_unknown_job():
    costs_s = [cost_s(age_s, [8]) for age_s in (9.1, 10, 12, 14, 16, 20, 40)]
    assert costs_s == sorted(costs_s)
    assert costs_s[:4] == pytest.approx([2.2, 4, 8, 12])
    assert costs_s[-1] == cost_s(40, [])


@given(TIMES, LENGTHS)
def test_outlived_job_never_costs_more_than_an_unknown_job(age_ns, lengths_ns):
    cost_ns = estimate(age_ns, lengths_ns, S).cost_ns
    assert cost_ns >= 0
    if age_ns > max(lengths_ns) * 9 // 8:
        assert cost_ns <= doubled_ns(age_ns, S)


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=8))
def test_cost_is_the_least_time_per_end(rests):
    rests.sort()
    each = [
        (sum(min(rest, until) for rest in rests)) / sum(rest <= until for rest in rests)
        for until in rests
    ]
    assert abs(cost_of_rests_ns(rests) - min(each)) < 1
    assert cost_of_rests_ns([]) is None


def test_kind_that_ended_on_the_node_predicts_without_an_expectation():
    knowledge = Knowledge()
    knowledge.learn(Ended(s * S, kind, user=1) for s, kind in ((5, 7), (9, 8), (6, 7)))
    knowledge.learn([Ended(S, 7, user=2)])
    assert knowledge.lengths_of(Expectation(7), user=1) == [5 * S, 6 * S]
    assert knowledge.lengths_of(Expectation(9), user=1) == []
    assert knowledge.lengths_of(Expectation(), user=1) == ()


def test_late_user_is_corrected_and_others_are_not():
    knowledge = Knowledge()
    claim = Expectation(1, (S,))
    knowledge.learn([Ended(4 * S, 5, user=1, expected_ns=S)] * 3)
    knowledge.learn([Ended(S, 6, user=2, expected_ns=S)] * 3)
    assert knowledge.lengths_of(claim, user=1) == [4 * S]
    assert knowledge.lengths_of(claim, user=2) == [S]
    assert knowledge.lengths_of(claim, user=3) == [S]


def test_user_whose_jobs_end_early_is_not_corrected():
    knowledge = Knowledge()
    knowledge.learn([Ended(S, 5, user=1, expected_ns=10 * S)] * 3)
    assert knowledge.lengths_of(Expectation(1, (10 * S,)), user=1) == [10 * S]


def test_only_the_last_jobs_are_remembered():
    knowledge = Knowledge()
    knowledge.learn(Ended(number) for number in range(100))
    assert knowledge.lengths_ns == list(range(100 - REMEMBERED, 100))


def test_mean_of_an_expectation():
    assert Expectation(1, (2, 4)).mean_ns == 3
    assert Expectation(1).mean_ns == 0
