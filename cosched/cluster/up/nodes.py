"""Names the nodes of a domain, and the words that run a command on each."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from cosched.config.domain import DomainConfig
from cosched.core.decoding import host_of
from cosched.core.names import member_of
from cosched.linux.here import this_machine

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DomainNode:
    """A node of a domain."""

    name: str  #: the node's name
    address: str  #: ``HOST:PORT`` of its agent
    #: The words in front of a command that make it run there: none for this machine,
    #: ``nsenter`` for a node of the lab, ``ssh HOST`` for a cluster.
    enter: tuple[str, ...] = ()


def local_nodes(port: int) -> tuple[DomainNode, ...]:
    """Returns this machine as the only node, on the loopback."""
    return (DomainNode(member_of(os.uname().nodename), f"{LOOPBACK}:{port}"),)


def host_nodes(hosts: Sequence[str], port: int, enter: str) -> tuple[DomainNode, ...]:
    """Returns hosts that a remote shell reaches. enter: its command; the host follows."""
    here = this_machine()
    return tuple(
        DomainNode(
            member_of(host),
            f"{host}:{port}",
            () if here.is_meant_by(host) else (*shlex.split(enter), host),
        )
        for host in hosts
    )


def controller_node(
    config: DomainConfig, inside: Sequence[DomainNode]
) -> DomainNode | None:
    """Returns the place of a domain's controller; None if it is on another machine.
    inside: nodes within this machine that have addresses of their own."""
    host = host_of(config.controller)
    for place in inside:
        if host_of(place.address) == host:
            return place
    if not this_machine().is_meant_by(host):
        return None
    return DomainNode(os.uname().nodename, config.controller)
