"""Chooses the halves for a job. Each placement returns None if no halves fit now.

whole: traditional space-sharing. Each job has its own nodes; a job of half a node leaves
    the other half empty.
packed: the same, but any two jobs of half a node may share one.
split: the paper's prototype (section 2.4). Jobs limited by memory get top halves, all other
    jobs get bottom halves, each half on another node.
labels: halves on different nodes, never beside a job of which a label warns; first beside
    jobs where a gain is expected.
anyhow: the same preference, but a job also starts beside a job of which a label warns.
learned: as anyhow, with observed speedups where there are any.

Under split, a job larger than the number of nodes gets whole nodes of its own. Under the
last three, so does each job whose whole nodes are free before its halves. So a large job
does not wait longer than without sharing.

A job that does not share has whole nodes under all of them, and no neighbour.

Where jobs share nodes, two programs of which one is known to harm the other are no
neighbours: a job waits instead.

A job that fits on a board still fits after other jobs have left. Plans depend on that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from cosched.core.cluster.queue.halves.board import Board, Placed
from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.cluster.queue.halves.sharing_job import BOTTOM, TOP, SharingJob
from cosched.core.symbiosis.resources import (
    Expectation,
    Limits,
    Resource,
    effect_by_labels,
)

Placement: TypeAlias = Callable[[SharingJob, Board], "Placed | None"]

#: Rates two jobs as neighbours, from their applications and labels: 0 is as good as no
#: neighbour, None forbids the pair.
Affinity: TypeAlias = Callable[[SharingJob, SharingJob], "float | None"]

#: Returns whether two applications must not be neighbours.
Forbids: TypeAlias = Callable[[str, str], bool]

#: The rating of a free other half: less than that of a symbiotic pair.
NO_NEIGHBOUR = 0.0


def whole(job: SharingJob, board: Board) -> Placed | None:
    """Places the job on whole nodes of its own. Halves that it does not fill stay empty."""
    nodes = _first(board, job.whole)
    if nodes is None:
        return None
    halves = [half for node in nodes for half in (2 * node, 2 * node + 1)]
    used = min(job.size, len(halves))
    return Placed(tuple(halves[:used]), tuple(halves[used:]))


def packed(job: SharingJob, board: Board) -> Placed | None:
    """Places the job on whole nodes; its last half goes to a used node if possible."""
    nodes = _first(board, job.size // 2)
    if nodes is None:
        return None
    halves = [half for node in nodes for half in (2 * node, 2 * node + 1)]
    if job.size % 2:
        free = [half for half in board.free_halves(TOP, 1) if half not in halves]
        if not free:
            return None
        halves.append(min(free, key=lambda half: (board.neighbour(half) is None, half)))
    return Placed(tuple(halves))


def _forbids_none(_one: str, _other: str) -> bool:
    return False


def split_unless(forbids: Forbids) -> Placement:
    """Returns the placement of jobs limited by memory on top halves, and of other jobs on
    bottom halves. A job that is larger than the machine, or that does not share, gets whole
    nodes."""

    def place(job: SharingJob, board: Board) -> Placed | None:
        wanted = job.spread
        if not job.shares or wanted > board.in_service:
            return whole(job, board)
        side = TOP if Resource.MEMORY in job.limits else BOTTOM
        free = []
        for half in board.free_halves(side):
            other = board.neighbour(half)
            if other is None or not forbids(job.application, other.application):
                free.append(half)
        return Placed(tuple(free[:wanted])) if len(free) >= wanted else None

    return place


def spread(affinity: Affinity, forbids: Forbids = _forbids_none) -> Placement:
    """Returns the placement on halves of different nodes with the best neighbours, or on
    whole nodes if too few halves are free. So no job waits for halves while its whole nodes
    are free. forbids: which applications are no neighbours."""

    def place(job: SharingJob, board: Board) -> Placed | None:
        if not job.shares:
            return whole(job, board)
        suited: list[tuple[float, int]] = []
        # Large jobs have the same few neighbours on many nodes.
        known: dict[tuple[str, Limits], float | None] = {}
        for half, neighbour in board.open_halves():
            worth: float | None = NO_NEIGHBOUR
            if neighbour is not None:
                kind = neighbour.application, neighbour.limits
                if kind not in known:
                    harms = forbids(job.application, neighbour.application)
                    known[kind] = None if harms else affinity(job, neighbour)
                worth = known[kind]
            if worth is not None:
                suited.append((-worth, half))
        wanted = job.spread
        if len(suited) < wanted:
            return whole(job, board)
        return Placed(tuple(half for _, half in sorted(suited)[:wanted]))

    return place


def by_labels(one: SharingJob, other: SharingJob) -> float | None:
    """Returns 1 for each of the two that should gain; None if users' labels warn."""
    worth = by_labels_anyhow(one, other)
    return None if worth < 0.0 else worth


def by_labels_anyhow(one: SharingJob, other: SharingJob) -> float:
    """Returns 1 for each of the two that should gain, -1 for each that should slow down."""
    worth = {
        Expectation.SLOW: -1.0,
        Expectation.SYMBIOTIC: 1.0,
        Expectation.UNKNOWN: 0.0,
    }
    pairs = (one.limits, other.limits), (other.limits, one.limits)
    return sum(worth[effect_by_labels(*pair)] for pair in pairs)


def by_learner(learner: Learner) -> Affinity:
    """Returns the affinity by learned speedups: the gain of the two together."""

    def gain(one: SharingJob, other: SharingJob) -> float:
        own, its = (one.application, one.limits), (other.application, other.limits)
        return learner.expect(*own, *its) + learner.expect(*its, *own) - 2.0

    return gain


def _first(board: Board, wanted: int) -> list[int] | None:
    """Returns the first ``wanted`` empty nodes; None if there are fewer."""
    nodes: list[int] = []
    for node in board.empty_nodes():
        if len(nodes) == wanted:
            break
        nodes.append(node)
    return nodes if len(nodes) == wanted else None


#: All jobs that share may have halves.
ALL = 1.0
_BY_LABELS: dict[str, Affinity] = {"labels": by_labels, "anyhow": by_labels_anyhow}
#: The placements by name. ``learned`` is ``spread(by_learner(...))``.
PLACEMENTS: dict[str, Placement] = {
    "whole": whole,
    "packed": packed,
    "split": split_unless(_forbids_none),
    **{name: spread(affinity) for name, affinity in _BY_LABELS.items()},
}
LEARNED = "learned"
#: Those that a domain may have, beside ``learned``.
OF_DOMAINS = ("split", *_BY_LABELS)
#: The largest jobs that have halves, as a part of the nodes: the largest part with which
#: none of twelve simulated logs lost more than 2% (benchmarks/sim/sharing_rule). On other
#: logs it gains on average, and may lose.
USUAL_PARTS: Mapping[str, float] = MappingProxyType(
    {"split": 1 / 16, "labels": 1 / 8, "anyhow": 1 / 16, LEARNED: 1 / 8}
)


def placement_of(name: str, learner: Learner) -> Placement:
    """Returns the placement of this name. Where jobs share nodes, it places none beside
    another one if the learner forbids that."""
    if name == LEARNED:
        return spread(by_learner(learner), learner.forbids)
    if name in _BY_LABELS:
        return spread(_BY_LABELS[name], learner.forbids)
    return split_unless(learner.forbids) if name == "split" else PLACEMENTS[name]
