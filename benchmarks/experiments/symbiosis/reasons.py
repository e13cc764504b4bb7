"""The limits and the reasons that the claims about symbiosis share. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.experiments.verdicts import Measured

#: The paper's claims "need only be notional": a smaller slowdown counts as none.
NO_EFFECT = 0.10
#: Why a machine of one node cannot show a gain that messages between nodes reduce.
ONE_NODE = (
    "the question is whether the gain exceeds the cost of more messages between nodes, and "
    "one node has none"
)
#: Why a small effect of other kernels shows nothing.
NOTHING_SLOWS = (
    "nothing slows this kernel down here, itself included, so this machine cannot show "
    "which kernels would"
)
#: The greatest median share of the machine for other work; above it is not quiet.
QUIET = 0.05
MEMORY_WHY = (
    "so few CPUs do not fill this machine's memory bandwidth, and caches and memory are "
    "shared with whatever else its host runs"
)
DISK_WHY = "the disk is the host's, which caches, and divides it by its own rules"
CPU_WHY = "the host's CPUs change their clock, and may share a core between two of ours"
EMULATED_WHY = (
    "the emulated node has stated speeds, which are not those of the paper's nodes"
)
_DISK_WAITS = (
    "a job that waits for the emulated disk leaves memory and processors to the other one; "
    "the paper's file system was one of the network, which is not emulated"
)
_BUS_TURNS = (
    "the emulated bus serves whole rounds in turn, and a round of BT moves fewer bytes "
    "than one of the kernel stream, which stands for CG"
)
#: The reasons on the emulated node that are known for one claim, by its words.
EMULATED_WHYS: Mapping[str, str] = {
    "CG beside BTIO SIMPLE": _DISK_WAITS,
    "IS beside BTIO SIMPLE": _DISK_WAITS,
    "BTIO SIMPLE beside CG": _DISK_WAITS,
    "BTIO EP beside CG": _BUS_TURNS,
    "BTIO FULL beside CG": _BUS_TURNS,
}


def median(document: Mapping[str, Any], value: float) -> Measured:
    """Returns a figure of a document, which is a median over its rounds."""
    return Measured(value, value, value, document.get("repeat", 2) > 1)
