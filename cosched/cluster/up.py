"""Starts the members of a domain and waits until they are up.

A ``Place`` is a node together with the words that run a command on it: none for this
machine, ``nsenter`` for a node of the lab, ``ssh HOST`` or ``srun`` for a cluster.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cosched.cluster.client import USUAL_PATIENCE, Client, NoDomain, Patience
from cosched.cluster.config import DomainConfig, load_config, write_config
from cosched.cluster.keys import make_keys
from cosched.cluster.member import READY
from cosched.cluster.paths import DomainPaths
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.linux.ports import free_ports
from cosched.node.service.lock import DaemonLock
from cosched.shm.paths import NodePaths
from cosched.shm.userdirs import make_node_directory

#: How long members may take to come up.
WITHIN_S = 60.0
CONTROLLER_MODULE = "cosched_daemons.controller"
AGENT_MODULE = "cosched_daemons.agent"
#: The name of a domain that a user's first job started.
PRIVATE = "private"
PRIVATE_IDLE_S = 60.0
PRIVATE_TASKS_PER_CPU = 8
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Place:
    """A node of a domain. address: ``HOST:PORT`` of its agent. enter: the words in front of
    a command that make it run there."""

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


def write_domain(paths: DomainPaths, config: DomainConfig) -> None:
    """Writes ``domain.toml`` and the keys that are missing. The keys stay as they are."""
    paths.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    paths.config.write_text(write_config(config))
    make_keys(paths.keys, config.members)


def start_domain(
    paths: DomainPaths,
    places: Sequence[Place],
    idle_s: float | None = None,
    steps: Path | None = None,
) -> None:
    """Starts the controller at the first place and an agent at each, and waits until all
    have joined. Ends what it has started if one fails.

    idle_s: the controller ends the domain when no job came for so long. steps: a file in
    which all agents note the steps of starts.
    """
    config = load_config(paths.config)
    with contextlib.ExitStack() as started:
        words = ["--run-dir", str(paths.run_dir)]
        idle = [] if idle_s is None else ["--idle", str(idle_s)]
        noted = [] if steps is None else ["--steps", str(steps)]
        controller = start_member(
            places[0], CONTROLLER_MODULE, [*words, *idle], paths.controller_log
        )
        started.callback(controller.end)
        controller.wait_ready()
        agents = []
        for place in places:
            paths.node(place.name).mkdir(mode=0o755, exist_ok=True)
            agent = start_member(
                place,
                AGENT_MODULE,
                [*words, "--node", place.name, *noted],
                paths.agent_log(place.name),
            )
            started.callback(agent.end)
            agents.append(agent)
        for agent in agents:
            agent.wait_ready()
        wait_joined(paths, config.node_names)
        started.pop_all()
    for member in (controller, *agents):
        member.leave()


def start_coupled(paths: DomainPaths) -> None:
    """Starts only the controller of a domain, on this machine."""
    place = Place(os.uname().nodename, "")
    words = ["--run-dir", str(paths.run_dir)]
    controller = start_member(place, CONTROLLER_MODULE, words, paths.controller_log)
    try:
        controller.wait_ready()
    except BaseException:
        controller.end()
        raise
    controller.leave()


def refuse_second(paths: DomainPaths) -> None:
    """Makes the directory of a domain. Raises CoschedError if one is up there."""
    lock = DaemonLock(paths.controller_lock)
    paths.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not lock.acquire():
        raise CoschedError(
            f"a domain is up already in {paths.run_dir}; end it with: cosched cluster down"
        )
    lock.release()


def start_private(run_dir: Path, node: str) -> None:
    """Starts a domain of this machine alone, which ends when no job came for a while.

    Does nothing if another process has just started it. Raises NoDomain if an operator's
    domain has this run directory: only its operator starts it.
    """
    paths = DomainPaths(run_dir)
    if paths.config.exists() and load_config(paths.config).name != PRIVATE:
        raise NoDomain(
            f"the domain in {run_dir} is down; start it with: cosched cluster up"
        )
    make_node_directory(NodePaths(run_dir, node), os.geteuid(), private=False)
    paths.directory.mkdir(mode=0o755, exist_ok=True)
    with (paths.directory / "start.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with contextlib.suppress(NoDomain):
            Client.connect(run_dir, node).close()
            return
        port = free_ports(2)
        places = local_places(port + 1)
        slots = PRIVATE_TASKS_PER_CPU * len(os.sched_getaffinity(0))
        nodes = {place.name: place.address for place in places}
        write_domain(paths, DomainConfig(PRIVATE, f"127.0.0.1:{port}", nodes, slots))
        start_domain(paths, places, PRIVATE_IDLE_S)


def stop_domain(
    paths: DomainPaths,
    node: str | None,
    *,
    end_jobs: bool,
    patience: Patience = USUAL_PATIENCE,
) -> list[int]:
    """Ends the domain; returns the jobs that were ended. Raises NoDomain if none is up, and
    CoschedError if jobs run that are not to be ended."""
    with Client.connect(paths.run_dir, node, patience) as client:
        ended = client.down(end_jobs=end_jobs)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        if _controller_has_ended(paths):
            return ended
        time.sleep(_POLL_S)
    raise CoschedError(f"the controller does not end; its log: {paths.controller_log}")


def _controller_has_ended(paths: DomainPaths) -> bool:
    """Returns whether its socket is gone, and then its process with the job store."""
    if paths.controller_socket.exists():
        return False
    lock = DaemonLock(paths.controller_lock)
    if not lock.acquire():
        return False
    lock.release()
    return True


def wait_joined(paths: DomainPaths, nodes: Sequence[str]) -> None:
    """Waits until the controller has all nodes. Asks the agent of the first one, or a
    controller on this machine. Raises CoschedError if some do not join."""
    deadline = time.monotonic() + WITHIN_S
    missing = list(nodes)
    while time.monotonic() < deadline:
        with (
            contextlib.suppress(NoDomain),
            Client.connect(paths.run_dir, nodes[0]) as client,
        ):
            missing = [
                each["node"]
                for each in client.nodes()
                if each["state"] not in ("up", "drained")
            ]
            if not missing:
                return
        time.sleep(_POLL_S)
    raise CoschedError(
        f"{', '.join(missing)} did not join within {WITHIN_S:g} s; "
        f"see {paths.agent_log(missing[0])}"
    )


@dataclass(slots=True)
class StartedMember:
    """A member that was started; its stdout gets one line when it is ready."""

    what: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_ready(self) -> None:
        """Raises CoschedError with the last line of its log if it ends before."""
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != READY.encode():
            self.process.wait()
            lines = self.log.read_text(errors="replace").strip().splitlines()
            raise CoschedError(f"{self.what}: {lines[-1] if lines else 'did not start'}")

    def end(self) -> None:
        """Ends it and waits for its end."""
        self.process.terminate()
        self.process.wait()

    def leave(self) -> None:
        """Lets it run on without this process."""
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.returncode = 0  # or its end would be awaited


def start_member(
    place: Place, module: str, words: Sequence[str], log: Path
) -> StartedMember:
    """Starts a member at a place; its log gets what it writes to stderr."""
    log.touch(mode=0o644)
    with log.open("ab") as file:
        process = subprocess.Popen(
            [*place.enter, sys.executable, "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            start_new_session=True,
            cwd="/",
        )
    return StartedMember(f"{place.name}: {module.rpartition('.')[2]}", process, log)
