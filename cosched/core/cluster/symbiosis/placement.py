"""Which halves suit a job. Pure functions of the board; None: none now.

whole: traditional space-sharing. Nodes of its own for each job; a job of half a node
    leaves the other half empty.
packed: the same, but two jobs of half a node may share one, whatever they are.
split: the paper's prototype (section 2.4). Jobs limited by memory have top halves, all
    others bottom halves, each of another node.
labels: halves beside jobs of which nobody's label warns, each of another node;
    beside those with whom either is expected to be symbiotic first.
anyhow: the same order of preference, but rather beside a job that is warned of than not
    at all.
learned: as anyhow, but by what was seen of the applications, where anything was.

In the last four, a job larger than the number of nodes gets whole nodes of its own.

A job that fits on a board fits on it too when others have gone: plans rest on that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from cosched.core.cluster.symbiosis.board import Board, Spot
from cosched.core.cluster.symbiosis.learner import Learner
from cosched.core.cluster.symbiosis.messages import BOTTOM, TOP, SharingJob
from cosched.core.cluster.symbiosis.resources import Expectation, Limits, Resource, expected

Placement: TypeAlias = Callable[[SharingJob, Board], "Spot | None"]

#: How well two jobs suit each other, beside 0 for nobody; None: not at all. By their
#: applications and labels alone.
Affinity: TypeAlias = Callable[[SharingJob, SharingJob], "float | None"]

#: What a job that has nobody beside it leaves to be gained: less than a symbiotic pair.
NOBODY = 0.0


def whole(job: SharingJob, board: Board) -> Spot | None:
    """Nodes of its own."""
    wanted = (job.size + 1) // 2
    nodes = _first(board, wanted)
    if nodes is None:
        return None
    halves = [half for node in nodes for half in (2 * node, 2 * node + 1)]
    return Spot(tuple(halves[: job.size]), tuple(halves[job.size :]))


def packed(job: SharingJob, board: Board) -> Spot | None:
    """Whole nodes, and any free half for what is left: of a used node if there is one."""
    nodes = _first(board, job.size // 2)
    if nodes is None:
        return None
    halves = [half for node in nodes for half in (2 * node, 2 * node + 1)]
    if job.size % 2:
        free = [
            half
            for half in range(2 * board.nodes)
            if board.owner(half) is None and half not in halves
        ]
        if not free:
            return None
        halves.append(min(free, key=lambda half: (board.neighbour(half) is None, half)))
    return Spot(tuple(halves))


def split(job: SharingJob, board: Board) -> Spot | None:
    """Memory on top, all else below."""
    if job.size > board.nodes:
        return whole(job, board)
    side = TOP if Resource.MEMORY in job.limits else BOTTOM
    free = [half for half in range(side, 2 * board.nodes, 2) if board.owner(half) is None]
    return Spot(tuple(free[: job.size])) if len(free) >= job.size else None


def spread(affinity: Affinity) -> Placement:
    """One half of each of several nodes, where the neighbours suit best."""

    def place(job: SharingJob, board: Board) -> Spot | None:
        if job.size > board.nodes:
            return whole(job, board)
        suited: list[tuple[float, int]] = []
        # Large jobs meet the same few applications on many nodes.
        known: dict[tuple[str, Limits], float | None] = {}
        for half, neighbour in board.open_halves():
            worth: float | None = NOBODY
            if neighbour is not None:
                kind = neighbour.application, neighbour.limits
                if kind not in known:
                    known[kind] = affinity(job, neighbour)
                worth = known[kind]
            if worth is not None:
                suited.append((-worth, half))
        if len(suited) < job.size:
            return None
        return Spot(tuple(half for _, half in sorted(suited)[: job.size]))

    return place


def by_labels(one: SharingJob, other: SharingJob) -> float | None:
    """1 for each of the two that is expected to gain; None if users' labels warn."""
    worth = grudging(one, other)
    return None if worth < 0.0 else worth


def grudging(one: SharingJob, other: SharingJob) -> float:
    """1 for each of the two that is expected to gain, -1 for each that is to slow down."""
    worth = {
        Expectation.SLOW: -1.0,
        Expectation.SYMBIOTIC: 1.0,
        Expectation.UNKNOWN: 0.0,
    }
    pairs = (one.limits, other.limits), (other.limits, one.limits)
    return sum(worth[expected(*pair)] for pair in pairs)


def by_learner(learner: Learner) -> Affinity:
    """What the two gain together, as far as that was seen."""

    def gain(one: SharingJob, other: SharingJob) -> float:
        pair = one.application, other.application
        return learner.estimate(*pair) + learner.estimate(*reversed(pair)) - 2.0

    return gain


def _first(board: Board, wanted: int) -> list[int] | None:
    """So many empty nodes."""
    nodes: list[int] = []
    for node in board.empty_nodes():
        if len(nodes) == wanted:
            break
        nodes.append(node)
    return nodes if len(nodes) == wanted else None


#: By the names people use. ``learned`` is ``spread(by_learner(...))``.
PLACEMENTS: dict[str, Placement] = {
    "whole": whole,
    "packed": packed,
    "split": split,
    "labels": spread(by_labels),
    "anyhow": spread(grudging),
}
LEARNED = "learned"
