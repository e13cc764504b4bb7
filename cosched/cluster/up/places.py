"""Names the nodes of a domain, and the words that run a command on each."""

from __future__ import annotations

import contextlib
import os
import shlex
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.config import DomainConfig
from cosched.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a domain. address: ``HOST:PORT`` of its agent. enter: the words in front of
    a command that make it run there: none for this machine, ``nsenter`` for a node of the
    lab, ``ssh HOST`` for a cluster."""

    name: str
    address: str
    enter: tuple[str, ...] = ()


def local_places(port: int) -> tuple[Place, ...]:
    """Returns this machine as the only node, on the loopback."""
    return (Place(os.uname().nodename, f"127.0.0.1:{port}"),)


def lab_places(lab: Lab, port: int) -> tuple[Place, ...]:
    """Returns the nodes of a lab."""
    return tuple(
        Place(node.name, f"{node.address}:{port}", tuple(lab.enter_argv(node.name, "/")))
        for node in lab.nodes
    )


def host_places(hosts: Sequence[str], port: int, enter: str) -> tuple[Place, ...]:
    """Returns hosts that a remote shell reaches. enter: its command; the host follows."""
    here = os.uname().nodename
    return tuple(
        Place(host, f"{host}:{port}", () if host == here else (*shlex.split(enter), host))
        for host in hosts
    )


def controller_place(config: DomainConfig, run_dir: Path) -> Place | None:
    """Returns the place of a domain's controller if that is on this machine."""
    host = config.controller.rpartition(":")[0]
    lab = Lab.load(run_dir)
    for place in lab_places(lab, 0) if lab is not None else ():
        if place.address.rpartition(":")[0] == host:
            return place
    return Place(os.uname().nodename, config.controller) if _is_here(host) else None


def _is_here(host: str) -> bool:
    """Returns whether a name or an address is one of this machine: it can be bound."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except OSError:
        return False
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe, contextlib.suppress(OSError):
            probe.bind(address)
            return True
    return False
