"""Chooses nodes for the ranks of a world: the tasks that one MPI_Comm_spawn adds to a job.

A world runs on nodes of its job. Ranks that follow each other on a node are one block.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from cosched.core.cluster.startup.tree import Position
from cosched.core.errors import CoschedError

#: The most ranks of one world. An agent places them one by one.
MOST_RANKS = 1 << 16


@dataclass(frozen=True, slots=True)
class Part:
    """Ranks of a world that may run on the same nodes of the job."""

    ranks: int  #: how many ranks
    places: tuple[Position, ...]  #: the nodes that may run them


@dataclass(frozen=True, slots=True)
class Block:
    """Ranks in a row that a node of the job gets."""

    place: Position  #: the node
    ranks: int  #: how many ranks


def place_world(parts: Sequence[Part], free: Sequence[int]) -> tuple[Block, ...]:
    """Returns the blocks of a world in the order of its ranks, one for each node.

    free: the free slots of each node of the job; below 0 if it has more tasks than slots.
    Each rank goes to the node with the most free slots, so that a world without room
    crowds all nodes equally. Raises CoschedError for a world without ranks or with more
    than ``MOST_RANKS``, for a part without nodes, and if a node would get ranks that are
    not in a row.
    """
    if not parts or any(part.ranks < 1 for part in parts):
        raise CoschedError("needs one rank or more of each program")
    ranks = sum(part.ranks for part in parts)
    if ranks > MOST_RANKS:
        raise CoschedError(f"{ranks} ranks are more than {MOST_RANKS}; spawn fewer")
    left = list(free)
    blocks: list[Block] = []
    for part in _merge(parts):
        for block in _place_part(part, left):
            if blocks and blocks[-1].place == block.place:
                blocks[-1] = Block(block.place, blocks[-1].ranks + block.ranks)
            else:
                blocks.append(block)
    if len({block.place for block in blocks}) < len(blocks):
        raise CoschedError("a node would get ranks that do not follow each other")
    return tuple(blocks)


def _merge(parts: Sequence[Part]) -> list[Part]:
    """Joins neighbours that may run on the same nodes."""
    merged: list[Part] = []
    for part in parts:
        if merged and merged[-1].places == part.places:
            merged[-1] = Part(merged[-1].ranks + part.ranks, part.places)
        else:
            merged.append(part)
    return merged


def _place_part(part: Part, left: list[int]) -> list[Block]:
    if not part.places:
        raise CoschedError("no node of the job may run it")
    ranks = dict.fromkeys(part.places, 0)
    fullest_last = [(-left[place], place) for place in ranks]
    heapq.heapify(fullest_last)
    for _ in range(part.ranks):
        used, place = fullest_last[0]
        heapq.heapreplace(fullest_last, (used + 1, place))
        ranks[place] += 1
        left[place] -= 1
    return [Block(place, number) for place, number in ranks.items() if number]
