"""Matches what jobs need besides CPUs with what nodes and the domain have.

Nodes have features and counts by the operator's word, and memory by that of their agents.
"""

from __future__ import annotations

from collections.abc import Iterable

from cosched.cluster.engines.native.node_entries import NodeEntry
from cosched.cluster.submission import Submission
from cosched.config.resources import ResourceSettings
from cosched.core.cluster.queue.places.matching import NodeOffer, Request
from cosched.core.cluster.queue.places.needs import MEMORY
from cosched.core.errors import CoschedError

#: The memory of a node whose agent has not reported it: any job fits, for now.
_ANY_MEMORY = 1 << 62


def offer_of(resources: ResourceSettings, node: NodeEntry) -> NodeOffer[int]:
    """Returns what a node has besides CPUs."""
    totals = {MEMORY: node.memory_bytes or _ANY_MEMORY, **resources.counts_of(node.name)}
    return NodeOffer(node.number, totals, resources.features_of(node.name))


def request_of(resources: ResourceSettings, job: Submission, nodes: int) -> Request | None:
    """Returns what a job needs besides CPUs; None: nothing."""
    on_node = {MEMORY: job.memory_bytes} if job.memory_bytes else {}
    in_domain: dict[str, int] = {}
    for name, number in job.needs.items():
        (in_domain if name in resources.licences else on_node)[name] = number
    if not (job.features or on_node or in_domain):
        return None
    return Request(
        nodes,
        1,
        tuple(sorted(on_node.items())),
        frozenset(job.features),
        in_domain=tuple(sorted(in_domain.items())),
    )


def check_declared(resources: ResourceSettings, job: Submission) -> None:
    """Raises CoschedError for a feature, count or licence that the operator has not
    declared."""
    for name in job.features:
        if name not in resources.features:
            raise CoschedError(_unknown("feature", name, resources.features))
    counted = [*resources.counts, *resources.licences]
    for name in job.needs:
        if name not in counted:
            raise CoschedError(_unknown("count or licence", name, counted))


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    there = ", ".join(sorted(known)) or "none"
    return f"infeasible: the domain has no {what} {name!a}; it has {there}"
