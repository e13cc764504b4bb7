"""Node sets and profiles against sets and lists of single nodes and moments."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.queue.nodes import (
    FreeNodes,
    common,
    count,
    format_nodes,
    from_numbers,
    union,
    without,
)
from cosched.core.cluster.queue.plans.profile import Profile
from cosched.core.errors import CoschedError


def members(intervals) -> set[int]:
    return {node for first, last in intervals for node in range(first, last + 1)}


def is_normal(intervals) -> bool:
    gaps = itertools.pairwise(intervals)
    return all(first <= last for first, last in intervals) and all(
        last + 1 < first for (_, last), (first, _) in gaps
    )


SETS = st.sets(st.integers(0, 20)).map(from_numbers)


@given(SETS, SETS)
def test_two_sets_combine_as_sets_do(one, other):
    for combined, wanted in (
        (common(one, other), members(one) & members(other)),
        (without(one, other), members(one) - members(other)),
        (union(one, other), members(one) | members(other)),
    ):
        assert members(combined) == wanted
        assert is_normal(combined)
        assert count(combined) == len(wanted)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=40))
def test_free_nodes_are_a_set(steps):
    free = FreeNodes(((0, 19),))
    model = set(range(20))
    held = []
    for takes, number in steps:
        if takes and 1 <= number <= len(model):
            got = free.take(number)
            assert members(got) == set(sorted(model)[:number])
            assert is_normal(got)
            model -= members(got)
            held.append(got)
        elif takes:
            with pytest.raises(CoschedError, match=f"{number} nodes wanted"):
                free.take(number)
        elif held:
            back = held.pop(number % len(held))
            free.give(back)
            model |= members(back)
        assert members(free.intervals) == model
        assert is_normal(free.intervals)
        assert free.total == len(model) == count(free.intervals)


@pytest.mark.parametrize("nodes", [((3, 3),), ((0, 4),), ((7, 8),), ((2, 9),)])
def test_nodes_cannot_be_given_back_twice(nodes):
    free = FreeNodes(((3, 3), (8, 9)))
    with pytest.raises(CoschedError, match="some are free already"):
        free.give(nodes)


def test_how_nodes_are_written():
    assert format_nodes(((0, 3), (8, 8))) == "0-3,8"
    assert format_nodes(()) == ""


HORIZON = 40


def steps_of(profile):
    """(time, free nodes from then on) of each step."""
    return list(zip(profile._times, profile._free, strict=True))


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(0, 15), st.integers(1, 10)), max_size=12
    ),
    st.integers(0, 10),
)
def test_a_profile_is_a_list_of_moments(requests, later):
    profile = Profile(0, 4, ())
    model = [4] * HORIZON
    placed = []
    for size, _, duration in requests:
        begin = profile.earliest(size, duration)
        naive = next(
            at
            for at in range(HORIZON * 10)
            if all(free >= size for free in model[at : at + duration])
        )
        assert begin == naive
        if begin + duration >= HORIZON:
            continue
        profile.occupy(size, begin, begin + duration)
        for at in range(begin, begin + duration):
            model[at] -= size
        placed.append((size, begin, begin + duration))
        assert moments(profile) == model
    look_for_each_size(profile, model, 0)
    for place, (size, begin, end) in enumerate(placed[::2]):
        profile.occupy(-size, begin, end)
        for at in range(begin, end):
            model[at] += size
        assert moments(profile) == model
        look_for_each_size(profile, model, 0)
        for left in [*placed[1::2], *placed[2 * place + 2 :: 2]]:
            move_each(profile, model, *left)
    profile.advance(later)
    look_for_each_size(profile, model, later)
    assert moments(profile)[later:] == model[later:]
    assert steps_of(profile)[0][0] == later


def look_for_each_size(profile: Profile, model: list[int], begin: int) -> None:
    """The first time of each size is cached; giving nodes back changes it."""
    for size in range(1, 5):
        first = next(at for at in range(begin, HORIZON) if model[at] >= size)
        assert profile.first(size) == profile.earliest(size, 1) == first


def move_each(profile: Profile, model: list[int], size: int, begin: int, end: int) -> None:
    """Where one would go if it were taken out and put in again."""
    without = [free + size * (begin <= at < end) for at, free in enumerate(model)]
    length = end - begin
    naive = next(
        at
        for at in range(HORIZON)
        if all(free >= size for free in without[at : at + length])
    )
    assert profile.earlier(size, length, begin) == naive
    assert profile.least(begin, end) == min(model[begin:end])


def moments(profile: Profile) -> list[int]:
    steps = steps_of(profile)
    assert all(one != other for (_, one), (_, other) in itertools.pairwise(steps))
    result = [0] * steps[0][0]
    for place, (at, free) in enumerate(steps):
        until = steps[place + 1][0] if place + 1 < len(steps) else HORIZON
        result += [free] * (until - at)
    return result


def test_profile_begins_with_the_expected_ends():
    profile = Profile(5, 1, [(7, 2), (7, 1), (9, 4)])
    assert steps_of(profile) == [(5, 1), (7, 4), (9, 8)]
    assert profile.earliest(4, 100) == 7
    assert profile.earliest(5, 1) == 9
