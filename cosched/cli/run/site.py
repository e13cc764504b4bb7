"""Finds the nodes of a job of cosched-run and asks their daemons."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.launch.command import Site
from cosched.launch.given.hosts import Hosts
from cosched.launch.nodes import Control, JobRefused, check_nodes, lease_node
from cosched.launch.program import which
from cosched.linux.here import getaddrinfo, this_machine, this_node
from cosched.linux.processes.tools import ask_tool
from cosched.node.lifetime.private_pair import StartingPair, begin_private_pair
from cosched.node.sockets.client import find_daemon
from cosched.rundir.paths import NodePaths

#: How long ssh may take to print a configuration, in seconds.
_ASKED_WITHIN_S = 5.0
#: Variables that name other ways to start ranks on hosts, or a batch system.
_OTHER_SHELLS = (
    *("HYDRA_LAUNCHER", "HYDRA_BOOTSTRAP", "OMPI_MCA_plm", "PRTE_MCA_plm"),
    *("SLURM_JOB", "PBS_", "LSB_", "FLUX_", "I_MPI_HYDRA_BOOTSTRAP"),
)
_LAB_HOST = r"lab[0-9]+"


def find_site(run_dir: Path, chosen: Hosts) -> Site:
    """Returns the lab's nodes if the hosts are such, otherwise the hosts as named."""
    hosts = chosen.names
    if not hosts:
        return Site()
    lab = None
    if os.path.exists(run_dir / "lab"):
        from cosched.lab.lab import Lab

        lab = Lab.load(run_dir)
    if lab is not None:
        known = {word for node in lab.nodes for word in (node.name, node.address)}
        if any(host in known or re.fullmatch(_LAB_HOST, host) for host in hosts):
            nodes = [lab.node(host) for host in hosts]
            return Site(
                names=tuple(node.name for node in nodes),
                addresses=tuple(node.address for node in nodes),
                agent=lab.agent,
                enter=tuple(lab.enter_argv(nodes[0].name)),
                network=lab.network,
                slots=chosen.slots,
            )
    here = this_machine()
    for host in hosts:
        if here.is_named_by(host) or getaddrinfo(host):
            continue
        if re.fullmatch(_LAB_HOST, host):
            raise CoschedError(
                f"host '{host}': no such host, and no lab is up in {run_dir}; "
                "run: cosched lab up"
            )
        if not _may_have_own_names(os.environ) and not _shell_knows(host):
            raise CoschedError(f"host '{host}': no such host")
    return Site(names=hosts, addresses=hosts, slots=chosen.slots)


def _may_have_own_names(environ: Mapping[str, str]) -> bool:
    """Returns whether ranks may be started by other means than ssh, which may know hosts
    by other names."""
    return any(name.startswith(_OTHER_SHELLS) for name in environ)


def _shell_knows(host: str) -> bool:
    """Returns whether the user's configuration of ssh has another name for a host, or a
    way to it."""
    ssh = which("ssh", os.environ)
    if ssh is None or host.startswith("-"):
        return False
    answer = ask_tool((str(ssh), "-G", host), _ASKED_WITHIN_S).output
    facts = dict(line.partition(" ")[::2] for line in answer.splitlines())
    if "proxyjump" in facts or "proxycommand" in facts:
        return True
    name = facts.get("hostname", host)
    return name != host and bool(getaddrinfo(name))


def check_hosts(
    site: Site,
    run_dir: Path,
    name: str,
    most: int | None,
    need_bytes: int,
    *,
    there: bool = False,
) -> list[str]:
    """Raises JobRefused unless all daemons in reach accept the job. Returns the
    nodes without a daemon, as far as that shows here.

    there: this process has announced the job, so its name is taken by itself here."""
    without = check_nodes(
        local_nodes(site, run_dir),
        find_daemon,
        uid=os.geteuid(),
        job=name,
        most=most,
        need_bytes=need_bytes,
        there=this_node(os.environ) if there else None,
    )
    return [paths.node for paths in without]


def local_nodes(site: Site, run_dir: Path) -> list[NodePaths]:
    """Returns the job's nodes whose daemons answer here."""
    if site.agent is not None:
        return [NodePaths(run_dir, node) for node in site.names]
    here = not site.names or this_machine().is_one_meant_by(site.names)
    return [NodePaths(run_dir, this_node(os.environ))] if here else []


def lease_here(
    run_dir: Path,
    name: str,
    most: int | None,
    need_bytes: int,
    warn: Callable[[str], None],
    *,
    there: bool = False,
    starting: StartingPair | None = None,
) -> Control | None:
    """Returns a lease on this node's daemons, which are started if there are none.

    there: this process has announced the job, so its name is taken by itself. starting:
    daemons whose start has begun.

    Returns None, after a warning, if no daemon can be started.
    """
    here = NodePaths(run_dir, this_node(os.environ))
    begun = [] if starting is None else [starting]

    def start(paths: NodePaths) -> str:
        return (begun.pop() if begun else begin_private_pair(paths)).wait()

    try:
        return lease_node(
            here,
            find_daemon,
            start,
            uid=os.geteuid(),
            job=name,
            most=most,
            need_bytes=need_bytes,
            there=there,
        )
    except JobRefused:
        raise
    except CoschedError as error:
        warn(f"no daemons on this node ({error}); not coscheduled")
        return None
    finally:
        for each in begun:  # other daemons came up first
            each.let_be()
