"""How often the keeper of a page reads it."""

import pytest

from cosched.cluster.agent.resizing.page_keeper import (
    LOOK_MOST_S,
    LOOK_PART,
    LOOK_S,
    look_after_s,
)


@pytest.mark.parametrize(
    ("since_order_s", "after_s"),
    [(0.0, LOOK_S), (0.004, LOOK_S), (0.32, 0.32 * LOOK_PART), (60.0, LOOK_MOST_S)],
)
def test_looks_become_rarer_with_the_time_since_the_order(since_order_s, after_s):
    assert look_after_s(since_order_s) == after_s


def test_change_of_a_second_costs_few_looks():
    looks, now_s = 0, 0.0
    while now_s < 1.0:
        now_s += look_after_s(now_s)
        looks += 1
    assert looks < 100
