"""Which ranks a change makes and ends, and the change as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.resizing.change import (
    OPTION,
    VARIABLE,
    Arrival,
    Change,
    decode_change,
    encode_change,
    generation_of,
)
from cosched.core.cluster.resizing.plan import Rank, Spot, plan
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError
from tests.places import ROOT


def ranks(*worlds):
    """Ranks by world and place, as in (0, 3)."""
    return [Rank(world, Spot(place, f"n{place}")) for world, place in worlds]


def test_growth_appends_a_world():
    found = plan(ranks((0, 0)), Change(7, (), (Arrival(1, "n1", 2),)))
    assert found.spawned == (Spot(1, "n1"),) * 2
    assert found.ends == (False,)
    assert found.order == (0, 1, 2)
    assert [each.world for each in found.ranks] == [0, 7, 7]


def test_whole_world_leaves_without_a_spawn():
    found = plan(ranks((0, 0), (3, 1), (3, 2)), Change(7, (1, 2), ()))
    assert found.spawned == ()
    assert found.ends == (False, True, True)
    assert found.order == (0,)
    assert found.ended_worlds == {3}


def test_rest_of_a_world_is_replaced_in_its_places():
    before = ranks((0, 0), (3, 1), (3, 2), (5, 4))
    found = plan(before, Change(7, (1,), (Arrival(9, "n9", 1),)))
    assert found.spawned == (Spot(2, "n2"), Spot(9, "n9"))
    assert found.ends == (False, True, True, False)
    assert found.order == (0, 4, 3, 5)
    assert found.ranks == tuple(ranks((0, 0), (7, 2), (5, 4), (7, 9)))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (Change(1, (0,), ()), "no rank of the job would stay"),
        (Change(1, (4,), ()), "node 4 has no rank of the job, so it cannot leave"),
        (
            Change(1, (0,), (Arrival(0, "", 1),)),
            "node 0 cannot leave and come in one change",
        ),
    ],
)
def test_impossible_change_is_refused(change, line):
    with pytest.raises(CoschedError, match=line):
        plan(ranks((0, 0)), change)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=12),
    st.sets(st.integers(0, 5)),
    st.lists(st.tuples(st.integers(6, 9), st.integers(1, 3)), max_size=3),
)
def test_no_world_is_split_and_each_place_has_its_ranks(drawn, leaving, arriving):
    before = ranks(*drawn)
    places = {place for _, place in drawn}
    gone = tuple(sorted(leaving & places))
    change = Change(9, gone, tuple(Arrival(p, f"n{p}", n) for p, n in arriving))
    try:
        found = plan(before, change)
    except CoschedError:
        assert set(gone) == places
        assert not arriving
        return
    ended = {each.world for each, ends in zip(before, found.ends, strict=True) if ends}
    assert ended == found.ended_worlds
    assert ended.isdisjoint(each.world for each in found.ranks)
    stay = [place for _, place in drawn if place not in gone]
    came = [place for place, count in arriving for _ in range(count)]
    assert [each.spot.place for each in found.ranks] == stay + came
    assert sorted(rank for rank in found.order if rank >= len(before)) == [
        len(before) + number for number in range(len(found.spawned))
    ]


def test_change_is_read_back():
    change = Change(3, (1, 2), (Arrival(4, "four", 2),))
    assert decode_change(encode_change(change)) == change


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", encode_change(Change(0, (), ())), bytes(1 << 17)]
)
def test_malformed_change_is_one_error(data):
    with pytest.raises(Malformed, match="a change of a job's size"):
        decode_change(data)


@pytest.mark.parametrize(
    ("argv", "generation"),
    [
        (("/usr/bin/python3", "-X", f"{OPTION}=7", "-u", "p.py"), 7),
        (("/usr/bin/env", f"{VARIABLE}=12", "./app"), 12),
        (("./app", "-n", "4"), 0),
        (("env", "OTHER=7", "./app"), 0),
        (("./helper",), 0),
        ((), 0),
        (("env", f"{VARIABLE}=", "./app"), 0),
        (("env", f"{VARIABLE}=0", "./app"), 0),
        (("env", f"{VARIABLE}={1 << 62}", "./app"), 0),
        (("./app", "a", "b", f"{VARIABLE}=7"), 0),
    ],
)
def test_command_of_new_ranks_names_their_change(argv, generation):
    assert generation_of(argv) == generation


def test_library_for_c_names_the_change_by_the_same_variable():
    source = ROOT / "cosched" / "malleable" / "native" / "worlds.c"
    assert f'VARIABLE[] = "{VARIABLE}"' in source.read_text()
