"""Starts a private domain: this machine alone, for the jobs of one user.

A command starts its members when it needs them. So it also starts a member again that was
killed: the controller finds the jobs in its store, and they run on meanwhile.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from cosched.cluster.client import NoDomain
from cosched.cluster.config import DomainConfig, load_config
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import start_domain, wait_joined, write_domain
from cosched.cluster.up.killed import is_listening
from cosched.cluster.up.members import start_agent, start_controller
from cosched.cluster.up.places import Place, local_places
from cosched.linux.ports import free_ports
from cosched.shm.paths import NodePaths
from cosched.shm.userdirs import make_node_directory

#: The name of each private domain.
PRIVATE = "private"
IDLE_S = 60.0
TASKS_PER_CPU = 8


def start_private(run_dir: Path, node: str) -> None:
    """Starts a domain of this machine alone, which ends when no job came for a while.

    Does nothing if another process has just started it. Raises NoDomain if an operator's
    domain has this run directory: only its operator starts it.
    """
    paths = DomainPaths(run_dir)
    if paths.config.exists() and not _is_private(paths):
        raise NoDomain(
            f"the domain in {run_dir} is down; start it with: cosched cluster up"
        )
    make_node_directory(NodePaths(run_dir, node), os.geteuid(), private=False)
    paths.directory.mkdir(mode=0o755, exist_ok=True)
    with _starting(paths):
        if is_listening(paths.controller_socket) or is_listening(paths.agent_socket(node)):
            _start_missing(paths, node)
        else:
            _start_all(paths)


def restore_private(run_dir: Path, node: str, note: Callable[[str], object]) -> None:
    """Starts the killed members of a private domain again, for the user who started it.
    Does nothing in another domain. note: takes one line if there is something to start."""
    paths = DomainPaths(run_dir)
    if not _is_private(paths) or paths.directory.stat().st_uid != os.geteuid():
        return
    with _starting(paths):
        _start_missing(paths, node, note)


def _is_private(paths: DomainPaths) -> bool:
    return load_config(paths.config).name == PRIVATE


@contextlib.contextmanager
def _starting(paths: DomainPaths) -> Iterator[None]:
    """Lets no other process start members meanwhile."""
    with paths.private_lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _start_all(paths: DomainPaths) -> None:
    port = free_ports(2)
    places = local_places(port + 1)
    slots = TASKS_PER_CPU * len(os.sched_getaffinity(0))
    nodes = {place.name: place.address for place in places}
    write_domain(paths, DomainConfig(PRIVATE, f"127.0.0.1:{port}", nodes, slots))
    start_domain(paths, places, IDLE_S)


def _start_missing(
    paths: DomainPaths, node: str, note: Callable[[str], object] = lambda line: None
) -> None:
    config = load_config(paths.config)
    place = Place(node, config.nodes[node])
    if not is_listening(paths.controller_socket):
        note("the controller of the private domain was killed; starting it again")
        start_controller(place, paths, IDLE_S).settle()
    if not is_listening(paths.agent_socket(node)):
        note("the agent of the private domain was killed; starting it again")
        start_agent(place, paths).settle()
    wait_joined(paths, config.node_names)
