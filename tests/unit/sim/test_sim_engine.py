"""The heap: a total order, and no way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.sim.virtual_time import PROGRESS_EVERY, VirtualTime


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=60))
def test_engine_orders_by_time_rank_and_request(asked):
    engine = VirtualTime()
    seen = []
    for place, (at, rank) in enumerate(asked):
        engine.at(at, rank, seen.append, (at, rank, place))
    engine.run(lambda: None)
    assert seen == sorted(seen)
    assert len(seen) == len(asked)


def test_engine_call_requested_meanwhile_is_in_order():
    engine = VirtualTime()
    seen = []

    def first(_):
        seen.append(("first", engine.now_ns))
        engine.at(3, 0, lambda what: seen.append((what, engine.now_ns)), "third")
        engine.at(3, 2, lambda what: seen.append((what, engine.now_ns)), "fifth")

    engine.at(1, 0, first, None)
    engine.at(2, 0, lambda what: seen.append((what, engine.now_ns)), "second")
    engine.at(3, 1, lambda what: seen.append((what, engine.now_ns)), "fourth")
    engine.run(lambda: None)
    assert seen == [("first", 1), ("second", 2), ("third", 3), ("fourth", 3), ("fifth", 3)]


def test_engine_request_in_the_past_raises():
    engine = VirtualTime()
    engine.at(5, 0, lambda _: engine.at(4, 0, print, None), None)
    with pytest.raises(ValueError, match="at 5 ns something is asked for 4 ns"):
        engine.run(lambda: None)


def test_engine_progress_may_stop_the_run():
    engine = VirtualTime()
    calls, done = [], []
    for at in range(3 * PROGRESS_EVERY):
        engine.at(at, 0, calls.append, at)

    def progress():
        done.append(len(calls))
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        engine.run(progress)
    assert done == [0, PROGRESS_EVERY]
