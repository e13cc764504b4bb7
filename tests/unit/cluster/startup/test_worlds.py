"""Tests how the ranks of a spawned world are spread over the nodes of their job."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.startup.worlds import MOST_RANKS, Block, Part, place_world
from cosched.core.errors import CoschedError

BOTH = (0, 1)


@pytest.mark.parametrize(
    ("ranks", "free", "blocks"),
    [
        (1, (1, 1), [(0, 1)]),
        (1, (0, 1), [(1, 1)]),
        (3, (3, 4), [(0, 1), (1, 2)]),
        (4, (2, 2), [(0, 2), (1, 2)]),
        (4, (0, 0), [(0, 2), (1, 2)]),  # without room all nodes get the same
        (2, (-3, -1), [(1, 2)]),
    ],
)
def test_each_rank_goes_to_the_node_with_the_most_free_slots(ranks, free, blocks):
    assert place_world([Part(ranks, BOTH)], free) == tuple(Block(*each) for each in blocks)


def test_programs_for_all_nodes_share_one_block_a_node():
    parts = [Part(1, BOTH), Part(2, BOTH), Part(1, BOTH)]
    assert place_world(parts, (4, 4)) == (Block(0, 2), Block(1, 2))


def test_blocks_are_in_the_order_of_ranks():
    parts = [Part(1, (2,)), Part(2, (0,))]
    assert place_world(parts, (4, 4, 4)) == (Block(2, 1), Block(0, 2))


def test_neighbours_on_one_node_are_one_block():
    parts = [Part(2, (0, 1)), Part(1, (1,))]
    assert place_world(parts, (4, 4)) == (Block(0, 1), Block(1, 2))


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "needs one rank or more"),
        ([Part(0, BOTH)], "needs one rank or more"),
        ([Part(1, ())], "no node of the job may run it"),
        ([Part(1, (0,)), Part(1, (1,)), Part(1, (0,))], "do not follow each other"),
        ([Part(2**63 - 1, BOTH)], f"more than {MOST_RANKS}"),
        ([Part(MOST_RANKS, (0,)), Part(1, (1,))], f"more than {MOST_RANKS}"),
    ],
)
def test_worlds_that_cannot_be_placed(parts, problem):
    with pytest.raises(CoschedError, match=problem):
        place_world(parts, (4, 4))


def test_the_largest_world_is_placed():
    parts = [Part(MOST_RANKS, tuple(range(512)))]
    blocks = place_world(parts, [1] * 512)
    assert {block.ranks for block in blocks} == {MOST_RANKS // 512}


@given(
    st.lists(st.integers(-5, 9), min_size=1, max_size=9),
    st.lists(st.integers(1, 20), min_size=1, max_size=4),
)
def test_all_ranks_are_placed_and_no_slot_stays_free_beside_a_crowded_node(free, sizes):
    everywhere = tuple(range(len(free)))
    blocks = place_world([Part(size, everywhere) for size in sizes], free)
    assert sum(block.ranks for block in blocks) == sum(sizes)
    left = list(free)
    for block in blocks:
        left[block.place] -= block.ranks
    for block in blocks:
        assert left[block.place] + 1 >= max(left)
