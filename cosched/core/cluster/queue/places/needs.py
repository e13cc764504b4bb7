"""Describes what a job needs besides CPUs, and what its domain lacks of that."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from cosched.core.cluster.queue.places.matching import Matcher, Request
from cosched.core.counting import counted
from cosched.core.units import format_bytes

#: The memory of a node among its counts, in bytes.
MEMORY = "memory"


class Lack(NamedTuple):
    """What a job lacks besides CPUs."""

    needed: str  #: what it needs, in few letters
    free: int  #: how much of that is free
    line: str  #: both in one line


def in_words(request: Request) -> str:
    """Returns what each node of a job must have: ``bigmem, 8.0 GiB of memory, gpu:2``."""
    counts = [
        f"{format_bytes(number)} of memory" if name == MEMORY else f"{name}:{number}"
        for name, number in request.on_a_node.items()
    ]
    return ", ".join([*sorted(request.features), *counts])


def shortage(matcher: Matcher[int], request: Request, nodes: Collection[int]) -> str:
    """Returns in one line what a domain with these nodes lacks, even if no other job runs;
    empty if it lacks nothing."""
    for name, number in request.in_domain:
        there = matcher.in_domain.get(name, 0)
        if there < number:
            return f"needs {name}:{number}, the domain has {there}"
    capable = len(set(matcher.capable(request)).intersection(nodes))
    if capable >= request.nodes:
        return ""
    wanted = counted(request.nodes, "node")
    return f"needs {wanted} with {in_words(request)}, the domain has {capable}"


def lacking_now(
    matcher: Matcher[int], request: Request, nodes: Collection[int]
) -> Lack | None:
    """Returns what a job lacks as long as others run; None if it lacks nothing but CPUs.
    nodes: those in service."""
    free = matcher.free_in_domain
    for name, number in request.in_domain:
        left = max(0, free.get(name, 0))
        if left < number:
            total = matcher.in_domain.get(name, 0)
            line = f"{name}: {left} of {total} free, needs {number}"
            return Lack(f"{name}:{number}", left, line)
    room = len(set(matcher.with_room(request)).intersection(nodes))
    if room >= request.nodes:
        return None
    words = in_words(request)
    line = f"{counted(room, 'node has', 'nodes have')} {words} free, needs {request.nodes}"
    return Lack(f"{counted(request.nodes, 'node')} with {words}", room, line)
