"""Requests for a forecast take at most a part of the controller's time."""

from __future__ import annotations

import pytest

from cosched.cluster.engines.native.forecasts import CHEAP_S, KEPT_TIMES, Forecasts


class Played:
    """A queue whose forecast takes some time, and the clock that measures it."""

    def __init__(self, takes_s):
        self.now_s, self.made, self.takes_s = 100.0, 0, takes_s
        self.forecasts = Forecasts(self.make, lambda: self.now_s)

    def make(self):
        self.now_s += self.takes_s
        self.made += 1
        return {7: self.made}


def test_a_cheap_forecast_is_made_for_each_request():
    played = Played(CHEAP_S / 2)
    assert [played.forecasts.get() for _ in range(3)] == [{7: 1}, {7: 2}, {7: 3}]


@pytest.mark.parametrize("takes_s", [0.1, 4.0])
def test_a_costly_forecast_takes_a_small_part_of_the_time(takes_s):
    played = Played(takes_s)
    first_s = played.now_s
    assert played.forecasts.get() == played.forecasts.get() == {7: 1}
    for _ in range(1000):
        played.now_s += takes_s / 2
        played.forecasts.get()
    assert played.made > 1
    most = 1 + (played.now_s - first_s) / ((KEPT_TIMES + 1) * takes_s)
    assert played.made <= most
