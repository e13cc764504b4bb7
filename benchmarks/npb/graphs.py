"""Makes DT's graphs: black hole, white hole, shuffle. Pure.

Nodes are in topological order: an arc leads from a node to a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

IN_ONE = 4  # arcs that enter a node of a black hole at most
Tails = list[tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a graph."""

    tails: tuple[int, ...]  #: nodes whose features it takes, in order; empty: a source
    heads: tuple[int, ...]  #: nodes that take its feature; empty: a sink


def black_hole(sources: int) -> list[Node]:
    """Four streams become one at each node, down to one sink."""
    return _graph(_quad_tree(sources))


def white_hole(sinks: int) -> list[Node]:
    """One source, whose feature goes to four nodes each time, until all sinks have it: a
    black hole in reverse."""
    into = _quad_tree(sinks)
    last = len(into) - 1
    tails: Tails = [()] * len(into)
    for head, found in enumerate(into):
        for tail in found:
            tails[last - tail] = (last - head,)
    return _graph(tails)


def shuffle(width: int) -> list[Node]:
    """Layers of as many nodes (a power of two) as sources. Each takes the features of two
    nodes of the layer above; their numbers differ by the layer's bit."""
    tails: Tails = [()] * width
    for layer in range(width.bit_length() - 1):
        bit, first = 1 << layer, layer * width
        for place in range(width):
            low = first + (place & ~bit)
            tails.append((low, low + bit))
    return _graph(tails)


def _quad_tree(leaves: int) -> Tails:
    """Leaves first, the root last."""
    tails: Tails = [()] * leaves
    layer = list(range(leaves))
    while len(layer) > IN_ONE:
        first = len(tails)
        tails += [
            tuple(layer[start : start + IN_ONE]) for start in range(0, len(layer), IN_ONE)
        ]
        layer = list(range(first, len(tails)))
    return [*tails, tuple(layer)]


def _graph(tails: Tails) -> list[Node]:
    heads: list[list[int]] = [[] for _ in tails]
    for head, found in enumerate(tails):
        for tail in found:
            heads[tail].append(head)
    return [Node(into, tuple(out)) for into, out in zip(tails, heads, strict=True)]


#: The graphs by NASA's short names; each is made from the width of its widest layer.
GRAPHS: Mapping[str, Callable[[int], list[Node]]] = {
    "BH": black_hole,
    "WH": white_hole,
    "SH": shuffle,
}
