"""Finds the nodes of a bench, and makes a lab if need be.

Named hosts are used as they are. Without hosts, the lab that is up is used, if it is as
asked. If none is up, a private lab is made in a new run directory; it ends with the bench.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from cosched.bench.run.interrupts import shielded
from cosched.bench.run.remote import RemoteSettings
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.core.rates import format_rate
from cosched.lab import life
from cosched.lab.lab import Lab, describe_links, require_root
from cosched.lab.state import NodeRecord
from cosched.linux.here import this_machine

# A socket's path has at most 107 bytes; cosched adds these:
# /cosched-bench-12345678/lab99/register.sock
_DEEPEST_TMPDIR = 107 - 43


@dataclass(frozen=True, slots=True)
class Site:
    """The nodes of a bench."""

    run_dir: Path  #: the run directory of the nodes' daemons
    hosts: tuple[str, ...]  #: the names of the nodes, in the order of placement
    #: The CPUs of each node, by its name; None: not all nodes are on this machine.
    node_cpus: Mapping[str, frozenset[int]] | None
    lab: bool  #: whether the nodes belong to a lab
    private: bool = False  #: the bench made the lab and may restart its daemons
    #: Changes the settings if the daemons cannot be reached from here; None: they can, or
    #: nothing changes them.
    remote: RemoteSettings | None = None
    shares_cpus: bool = False  #: two nodes have a CPU in common
    #: The rate of each link of a lab, in bits a second; None: no limit, or no lab.
    rate: int | None = None

    @property
    def cpus(self) -> frozenset[int] | None:
        """The CPUs of all nodes; None: not all nodes are on this machine."""
        if self.node_cpus is None:
            return None
        return frozenset().union(*self.node_cpus.values())


@contextmanager
def lab_site(
    run_dir: Path, nodes: int, cores_per_node: int | None, rate: int | None
) -> Iterator[Site]:
    """A site of ``nodes`` nodes of the lab that is up, or of a new one.

    cores_per_node: CPUs of each; None: any. rate: of their links; None: any. CoschedError
    if the lab that is up has others.
    """
    present = Lab.load(run_dir)
    if present is not None:
        _check_lab(present, nodes, cores_per_node, rate)
        yield _of_nodes(present, present.nodes[:nodes])
        return
    require_root()
    private = None
    try:
        with shielded():
            private = _private_run_dir()
        lab = life.up(private, nodes, cores_per_node or 1, rate=rate)
        yield replace(_of_nodes(lab, lab.nodes), private=True)
    finally:
        with shielded():
            if private is not None:
                _take_down(private)


def _check_lab(lab: Lab, nodes: int, cores_per_node: int | None, rate: int | None) -> None:
    """Raises CoschedError if a lab is not as the bench wants it."""
    if len(lab.nodes) < nodes:
        raise CoschedError(
            f"{nodes} nodes are wanted, and the lab that is up has {len(lab.nodes)}: give "
            f"--nodes {len(lab.nodes)}, or run 'cosched lab down' first"
        )
    cpus = {len(node.cpus) for node in lab.nodes[:nodes]}
    if cores_per_node is not None and cpus != {cores_per_node}:
        has = " and ".join(counted(each, "CPU") for each in sorted(cpus))
        raise _other_lab("--cores-per-node", str(cores_per_node), f"{has} a node")
    if rate is not None and rate != lab.rate:
        raise _other_lab("--rate", format_rate(rate), describe_links(lab.rate))


def _other_lab(option: str, wanted: str, has: str) -> CoschedError:
    return CoschedError(
        f"{option} {wanted}: the lab that is up has {has}: run 'cosched lab down' first, "
        f"or leave out {option}"
    )


def has_lab(run_dir: Path, nodes: int) -> bool:
    """Returns whether a lab of this size is up, or can be made: root makes one."""
    if os.geteuid() == 0:
        return True
    present = Lab.load(run_dir)
    return present is not None and len(present.nodes) >= nodes


def _private_run_dir() -> Path:
    """Makes a new folder below TMPDIR, or below /tmp if socket paths would be too long."""
    usual = tempfile.gettempdir()
    folder = usual if len(os.fsencode(usual)) <= _DEEPEST_TMPDIR else "/tmp"
    return Path(tempfile.mkdtemp(prefix="cosched-bench-", dir=folder))


def _take_down(run_dir: Path) -> None:
    try:
        life.down(run_dir)
    except CoschedError as error:
        raise CoschedError(f"{error} (its run directory: {run_dir})") from error
    if run_dir.exists():
        shutil.rmtree(run_dir)


def host_site(run_dir: Path, hosts: Sequence[str]) -> Site:
    """Returns the site of named hosts, which may be nodes of the lab that is up."""
    lab = Lab.load(run_dir)
    if lab is not None and {node.name for node in lab.nodes} >= set(hosts):
        used = tuple(lab.node(host) for host in hosts)
        return _of_nodes(lab, used)
    here = this_machine().are_all_meant_by(hosts)
    cpus_here = frozenset(os.sched_getaffinity(0))
    node_cpus = dict.fromkeys(hosts, cpus_here) if here else None
    return Site(run_dir, tuple(hosts), node_cpus, lab=False)


def _of_nodes(lab: Lab, used: Sequence[NodeRecord]) -> Site:
    return Site(
        run_dir=lab.run_dir,
        hosts=tuple(node.name for node in used),
        node_cpus={node.name: frozenset(node.cpus) for node in used},
        lab=True,
        shares_cpus=lab.shares_cpus,
        rate=lab.rate,
    )
