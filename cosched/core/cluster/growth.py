"""Decides when a domain asks its site for more nodes, and when it gives some back.

The domain has some nodes for good and asks for others, each by a request of its own. A
request waits at the site until it is granted; then its node joins the domain. A node that
is not needed is given back after it was idle for a while. A request that waits is withdrawn
as soon as it is not needed. A node that is out of service for long and has no job is given
back too, since another one may come in its place.

Invariants: the nodes and the open requests never exceed ``most``. They fall below ``least``
only while a node out of service is replaced. No node with a job is given back. Nothing is
asked for and given up at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from cosched.core.units import NS_PER_S

#: The least time out of service after which a node is given back: its agent may only begin.
LEAST_OUT_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a domain may grow and shrink."""

    least: int  #: nodes that it always has, at least 1
    most: int  #: nodes that it never exceeds
    idle_ns: int  #: a node is given back after it was idle so long, ns


@dataclass(frozen=True, slots=True)
class Request:
    """A node that was asked for and not given back."""

    number: int  #: the site's number of the request
    granted: bool  #: whether it has its node
    #: When its node got idle, ns; None: it is not granted, has not joined or has a job.
    idle_since_ns: int | None = None
    #: Since when its node is out of service without a job, ns; None: it is not.
    out_since_ns: int | None = None


class Ask(Struct, frozen=True):
    """Ask the site for more nodes."""

    nodes: int  #: how many


class Withdraw(Struct, frozen=True):
    """Withdraw a request that waits."""

    number: int  #: of the request


class GiveBack(Struct, frozen=True):
    """Remove the node of a request from the domain; the site gets it then."""

    number: int  #: of the request


Command = Ask | Withdraw | GiveBack


def decide(
    now_ns: int,
    bounds: Bounds,
    own: int,
    requests: Sequence[Request],
    busy: int,
    waiting: Sequence[int],
) -> tuple[Command, ...]:
    """Returns what to ask for and what to give up. own: nodes that the domain has for good.
    requests: in the order in which they were made. busy: nodes with a job. waiting: the
    nodes that each waiting job needs."""
    latest_first = tuple(reversed(requests))
    out_ns = max(bounds.idle_ns, LEAST_OUT_NS)
    useless = tuple(
        GiveBack(each.number)
        for each in latest_first
        if each.out_since_ns is not None and now_ns - each.out_since_ns >= out_ns
    )
    if useless:  # once they are gone, others are asked for
        return useless
    needed = busy + sum(waiting)
    wanted = max(bounds.least, min(bounds.most, needed))
    surplus = own + len(requests) - wanted
    if surplus < 0:
        return (Ask(-surplus),)
    open_ones: list[Command] = [
        Withdraw(each.number) for each in latest_first if not each.granted
    ]
    idle: list[Command] = [
        GiveBack(each.number)
        for each in latest_first
        if each.idle_since_ns is not None and now_ns - each.idle_since_ns >= bounds.idle_ns
    ]
    return (*open_ones, *idle)[:surplus]
