"""Plans a lab: names, addresses and CPUs. Pure.

Nodes are called lab1, lab2, ... A lab's network has no way out, so every lab can use the
same addresses.

The kernel counts each hardware thread as a CPU. Threads of a core that is already used
come last, so two nodes share a core only if there are too few cores.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from cosched.core.counting import counted
from cosched.core.errors import CoschedError

#: The start of the marks of the nodes of all labs.
ANY_MARK = "cosched-lab-"
NETWORK = IPv4Network("10.77.0.0/24")
MOST_NODES = NETWORK.num_addresses - 2


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node before it exists."""

    name: str  #: the node's host name, such as ``lab1``
    address: str  #: the node's IPv4 address in ``NETWORK``
    cpus: tuple[int, ...]  #: the node's CPUs by number, ascending


def plan_nodes(
    nodes: int, cores_per_node: int, siblings: Sequence[frozenset[int]]
) -> tuple[PlannedNode, ...]:
    """Gives each node the next ``cores_per_node`` CPUs for itself alone.

    ``siblings``: the usable CPUs, as one set for each core.
    """
    cpus = order_cpus(siblings)
    needed = nodes * cores_per_node
    planned = _plan(nodes, cores_per_node, cpus)
    if needed > len(cpus):
        raise CoschedError(
            f"{nodes} nodes with {counted(cores_per_node, 'core')} each need {needed} "
            f"cores, and this machine gives {len(cpus)}: ask for fewer, or make the lab "
            "with 'cosched lab up --share-cpus'"
        )
    return planned


def plan_crowded_nodes(
    nodes: int, cores_per_node: int, siblings: Sequence[frozenset[int]]
) -> tuple[PlannedNode, ...]:
    """Gives each node the next ``cores_per_node`` CPUs, round and round: nodes share them.

    Such a lab is for function; times that are measured in it mean little.
    """
    cpus = order_cpus(siblings)
    if cores_per_node > len(cpus):
        raise CoschedError(f"{cores_per_node} cores a node: this machine gives {len(cpus)}")
    return _plan(nodes, cores_per_node, cpus)


def _plan(nodes: int, cores_per_node: int, cpus: Sequence[int]) -> tuple[PlannedNode, ...]:
    if not 1 <= nodes <= MOST_NODES:
        raise CoschedError(f"{nodes} nodes: a lab has 1 to {MOST_NODES}")
    if cores_per_node < 1:
        raise CoschedError(f"{cores_per_node} cores a node: give each at least 1")
    return tuple(
        PlannedNode(
            name=f"lab{i + 1}",
            address=str(NETWORK[i + 1]),
            cpus=tuple(
                sorted(
                    cpus[at % len(cpus)]
                    for at in range(i * cores_per_node, (i + 1) * cores_per_node)
                )
            ),
        )
        for i in range(nodes)
    )


def order_cpus(siblings: Sequence[frozenset[int]]) -> list[int]:
    """Returns each core's first CPU, then each core's second, and so on."""
    ranked = {(rank, cpu) for core in siblings for rank, cpu in enumerate(sorted(core))}
    return [cpu for _, cpu in sorted(ranked)]


def hosts_file(machine: bytes, nodes: Sequence[PlannedNode]) -> bytes:
    """Returns the nodes' /etc/hosts: all nodes, and the machine's, in any encoding."""
    lines = "".join(f"{node.address}\t{node.name}\n" for node in nodes)
    return lines.encode() + machine


def mark_prefix(run_dir: Path) -> str:
    """Returns the start of the marks of all nodes of the lab in ``run_dir``."""
    digest = hashlib.sha256(bytes(run_dir / "lab")).hexdigest()
    return f"{ANY_MARK}{digest[:8]}-"
