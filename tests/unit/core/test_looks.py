"""When a node looks at a job alone."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.symbiosis.looks import (
    FIRST_RESTS,
    PERIOD_SLICES,
    SLICE_LEAST_NS,
    SLICE_MOST_NS,
    Looks,
)
from cosched.core.units import NS_PER_S

UNSURE: dict[str, bool] = {}
WALL_NS = 1_790_000_000 * NS_PER_S


def carried_out(looks, jobs, seconds, offset_ns=0, sure=UNSURE):
    """Returns the looks of a time, carried out in time."""
    now_ns, found = 0, []
    looks.meet(jobs, 0)
    while now_ns < seconds * NS_PER_S:
        look = looks.next_look(jobs, sure, now_ns, WALL_NS + now_ns + offset_ns)
        if look is None:
            now_ns += NS_PER_S
            continue
        found.append(look)
        looks.rested(look, look.slice_ns)
        now_ns = look.readings_ns[3] - WALL_NS - offset_ns
    return found


def test_each_look_shows_another_job():
    found = carried_out(Looks(1.0), ["a", "b"], 5)
    assert [look.shown for look in found[:4]] in (["a", "b"] * 2, ["b", "a"] * 2)
    assert all(
        look.resting == ({"a", "b"} - {look.shown}).pop() or len(look.resting) == 1
        for look in found
    )


def test_readings_are_a_slice_apart_around_the_rest():
    (look, *_) = carried_out(Looks(1.0), ["a", "b"], 1)
    first, begin, end, last = look.readings_ns
    assert begin == look.begin_ns
    assert {begin - first, end - begin, last - end} == {look.slice_ns}


def test_no_look_without_neighbours_or_if_it_is_off():
    assert carried_out(Looks(1.0), ["a"], 60) == []
    assert carried_out(Looks(0.0), ["a", "b"], 60) == []


def test_first_looks_come_soon():
    found = carried_out(Looks(1.0), ["a", "b"], 5)
    assert len(found) == 2 * FIRST_RESTS
    steps = {b.begin_ns - a.begin_ns for a, b in pairwise(found)}
    assert steps == {PERIOD_SLICES * SLICE_LEAST_NS}


def test_looks_are_rarer_if_enough_is_known():
    unsure = carried_out(Looks(1.0), ["a", "b"], 600)
    sure = carried_out(Looks(1.0), ["a", "b"], 600, sure={"a": True, "b": True})
    later = 2 * FIRST_RESTS
    assert 0 < len(sure) - later <= (len(unsure) - later) / 4


def test_nodes_with_other_begins_show_the_same_job_at_the_same_moment():
    one = carried_out(Looks(1.0), ["a", "b"], 300)
    other = carried_out(Looks(1.0), ["a", "b"], 300, offset_ns=7 * NS_PER_S // 10)
    shown = {look.begin_ns: look.shown for look in one}
    both = [look for look in other if look.begin_ns in shown]
    assert len(both) >= 0.7 * len(other)
    assert all(shown[look.begin_ns] == look.shown for look in both)


def test_slice_grows_for_a_job_with_little_work():
    looks = Looks(1.0)
    for _ in range(20):
        looks.was_coarse("a")
    looks.meet(["a", "b"], 0)
    looks._rests["a"].beside_ns = looks._rests["b"].beside_ns = 10**13
    look = looks.next_look(["a", "b"], UNSURE, 0, WALL_NS)
    assert look.slice_ns == SLICE_MOST_NS


def test_job_that_left_is_forgotten():
    looks = Looks(1.0)
    carried_out(looks, ["a", "b"], 10)
    assert looks.rested_ns("b") > 0
    looks.meet(["a"], 11 * NS_PER_S)
    assert looks.rested_ns("b") > 0  # it may come back
    looks.keep(["a"])
    assert looks.rested_ns("b") == 0
    assert looks.rested_ns("a") > 0


@given(
    st.integers(2, 4),
    st.floats(0.1, 10.0),
    st.integers(1, 400),
    st.lists(st.integers(0, 3), max_size=5),
)
def test_no_job_rests_more_than_its_part(count, percent, seconds, coarse):
    jobs = [f"job{number}" for number in range(count)]
    looks = Looks(percent)
    for number in coarse:
        looks.was_coarse(jobs[number % count])
    found = carried_out(looks, jobs, seconds)
    ended_ns = max(seconds * NS_PER_S, *[0, *(x.readings_ns[3] - WALL_NS for x in found)])
    for job in jobs:
        rested_ns = sum(look.slice_ns for look in found if job in look.resting)
        assert rested_ns == looks.rested_ns(job)
        assert rested_ns <= max(ended_ns * percent / 100, FIRST_RESTS * SLICE_LEAST_NS)
    for before, after in pairwise(found):
        assert before.readings_ns[3] <= after.readings_ns[0] + after.slice_ns
