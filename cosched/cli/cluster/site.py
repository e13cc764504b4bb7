"""Finds the nodes on which ``cosched cluster up`` starts a domain, and starts it there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.paths import DomainPaths
from cosched.cluster.slurm.allocation import Allocation, find_allocation
from cosched.cluster.slurm.step import allocation_places, start_growing, start_in_allocation
from cosched.cluster.up.domain import (
    refuse_second,
    start_domain,
    start_killed,
    written_domain,
)
from cosched.cluster.up.nodes import DomainNode, host_nodes, local_nodes
from cosched.cluster.up.private import give_way
from cosched.config.domain import PORT, DomainConfig
from cosched.core.cluster.growth import Bounds
from cosched.core.decoding import host_of
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.linux.ports import free_ports


@dataclass(frozen=True, slots=True)
class Site:
    """The nodes of a new domain."""

    places: tuple[DomainNode, ...]  #: the nodes, each with its address
    controller: str  #: the controller's ``HOST:PORT``
    root_from: tuple[str, ...] = ()  #: the nodes from which root may send jobs; (): none
    #: The Slurm job that has the nodes; None: no Slurm job has them.
    allocation: Allocation | None = None

    @property
    def nodes(self) -> dict[str, str]:
        """``HOST:PORT`` of each agent, by the name of its node."""
        return {place.name: place.address for place in self.places}

    def start_killed(self, run_dir: Path) -> list[str]:
        """Starts the members that were killed while others are up; returns their names. An
        init system or Slurm starts those of an allocation."""
        give_way(run_dir)
        if self.allocation is not None:
            return []
        return start_killed(DomainPaths(run_dir), self.places)

    def start(self, run_dir: Path, config: DomainConfig) -> bool:
        """Writes domain.toml and starts all members. Returns whether the file had other
        settings. Raises CoschedError if a domain is up in this run directory, or if a
        member does not start; then the file is as before."""
        paths = DomainPaths(run_dir)
        if self.allocation is not None:  # other users share its nodes
            run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_second(paths, tuple(self.nodes))
        with written_domain(paths, config) as had_others:
            if self.allocation is None:
                start_domain(paths, self.places)
            else:
                start_in_allocation(paths, self.allocation, os.environ)
        return had_others

    def grow(self, run_dir: Path, bounds: Bounds, sbatch: str) -> None:
        """Lets the domain ask Slurm for more nodes, and give them back. sbatch: further
        words for that command."""
        assert self.allocation is not None
        start_growing(DomainPaths(run_dir), self.allocation, bounds, sbatch, os.environ)


def check_growth(site: Site, nodes: tuple[int, int]) -> None:
    """Raises CoschedError for a site that cannot have from A to B nodes."""
    if site.allocation is None:
        raise CoschedError(
            "--nodes: no allocation of Slurm is here; use it in a batch script or in salloc"
        )
    least, most = nodes
    if most < len(site.places):
        raise CoschedError(
            f"--nodes {least}-{most}: the allocation has {len(site.places)} already"
        )


def hosts_site(hosts: Sequence[str], shell: str, port: int | None) -> Site:
    """Returns hosts that a remote shell reaches; the controller is on the first one."""
    port = PORT if port is None else port
    return _site(host_nodes(hosts, port + 1, shell), port)


def lab_site(run_dir: Path, port: int | None) -> Site:
    """Returns the nodes of the lab that is up. Raises CoschedError if none is."""
    port = PORT if port is None else port
    places = lab_places(run_dir, port + 1)
    # A lab's nodes are one machine with one root.
    return _site(places, port, root_from=tuple(place.name for place in places))


def lab_places(run_dir: Path, port: int) -> tuple[DomainNode, ...]:
    """Returns the nodes of the lab that is up. Raises CoschedError if none is."""
    lab = Lab.load(run_dir)
    if lab is None:
        raise CoschedError("no lab is up: make one with 'cosched lab up --nodes 2'")
    return lab_nodes(lab, port)


def lab_nodes(lab: Lab, port: int) -> tuple[DomainNode, ...]:
    """Returns the nodes of a lab."""
    return tuple(
        DomainNode(
            node.name, f"{node.address}:{port}", tuple(lab.enter_argv(node.name, "/"))
        )
        for node in lab.nodes
    )


def site_here(port: int | None) -> Site:
    """Returns the nodes of the Slurm job in which this process runs, otherwise this
    machine."""
    allocation = find_allocation(os.environ, os.uname().nodename)
    if allocation is None:
        port = free_ports(2) if port is None else port
        return _site(local_nodes(port + 1), port)
    port = allocation.port if port is None else port
    return Site(
        allocation_places(allocation, port + 1),
        f"{allocation.here}:{port}",
        allocation=allocation,
    )


def _site(
    places: tuple[DomainNode, ...], port: int, root_from: tuple[str, ...] = ()
) -> Site:
    first = host_of(places[0].address)
    return Site(places, f"{first}:{port}", root_from)
