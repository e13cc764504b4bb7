"""Starts what the fuzz is sent to: real daemons of a node and of domains.

There are three targets: the daemons of a node with their metrics server; a domain that is
coupled with another one; and the controller of a domain whose jobs Slurm queues. Doubles of
Slurm's commands show an empty queue.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.config.coupling import CouplingTable
from cosched.core.config.tables import read
from cosched.core.names import CONTROLLER
from cosched.core.node.settings import Settings
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from tests.domain.rig import Rig
from tests.tools.ports import free_ports

NODE = "fuzzed"
#: The node of the domain whose key is in the wrong hands.
THIEF = "n1"
DOMAIN, PEER = "intrepid", "eureka"
#: Doubles of the commands that the controller beside Slurm runs.
SLURM = {
    "squeue": 'echo \'{"jobs": [], "errors": []}\'',
    "sinfo": "echo",
    "scontrol": "echo",
    "sbatch": "exit 1",
    "scancel": "exit 1",
}
WITHIN_S = 30.0


@dataclass
class Target:
    """Daemons under fuzz. processes: their pids by name; logs: the files they write."""

    processes: dict[str, int] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)


@contextlib.contextmanager
def node_target(folder: Path) -> Iterator[Target]:
    """Starts a node's daemons with a metrics server."""
    paths = NodePaths(folder / "node", NODE)
    port = free_ports(1)
    options = NodeOptions(Settings(), metrics=f"127.0.0.1:{port}")
    start_node(paths, options)
    try:
        for path in (paths.directory, paths.run_dir, folder):
            path.chmod(0o755)
        pids = {
            "scheduler": lock_holder(paths.scheduler_lock),
            "timer": lock_holder(paths.timer_lock),
            "metrics": _until(lambda: lock_holder(paths.metrics_lock)),
        }
        assert all(pids.values()), pids
        yield Target(
            {name: int(pid) for name, pid in pids.items() if pid},
            [paths.log],
            {
                "control": str(paths.control_socket),
                "register": str(paths.register_socket),
                "metrics": f"127.0.0.1:{port}",
            },
        )
    finally:
        stop_node(paths)


class CoupledRig(Rig):
    """A domain of three nodes that is coupled with a domain that the fuzz plays."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 3)
        listen, peer, metrics = (f"127.0.0.1:{free_ports(1)}" for _ in range(3))
        self.peer_address, self.listen, self.metrics = peer, listen, metrics
        table = {
            "listen": listen,
            "domains": {PEER: peer},
            "same_names": [PEER],
            "metrics": metrics,
            "when_down": "yield",
        }
        self.config = replace(self.config, name=DOMAIN, coupling=read(CouplingTable, table))
        self.write_config(self.config)
        make_keys(self.paths.peers, [DOMAIN, PEER])


@contextlib.contextmanager
def domain_target(folder: Path) -> Iterator[tuple[Target, CoupledRig]]:
    """Starts a coupled domain; the node THIEF is left to the fuzz."""
    folder.mkdir()
    rig = CoupledRig(folder)
    names = [name for name in rig.config.members if name != THIEF]
    try:
        rig.start(*names)
        rig.until_up(*[name for name in names if name != CONTROLLER])
        for path in (rig.paths.directory, rig.paths.run_dir, rig.folder, folder.parent):
            path.chmod(0o755)
        for name in names[1:]:
            rig.paths.node(name).chmod(0o755)
        yield (
            Target(
                {name: rig.members[name].pid for name in names},
                [rig.folder / f"{name}.log" for name in names],
                {
                    "controller": str(rig.paths.controller_socket),
                    "agent": str(rig.paths.agent_socket("n2")),
                    "metrics": rig.metrics,
                },
            ),
            rig,
        )
    finally:
        rig.close()


@contextlib.contextmanager
def slurm_target(folder: Path) -> Iterator[Target]:
    """Starts the controller of a domain beside a Slurm without jobs."""
    paths = DomainPaths(folder / "slurm")
    paths.directory.mkdir(parents=True)
    commands = folder / "commands"
    commands.mkdir()
    for name, script in SLURM.items():
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
        (commands / name).chmod(0o755)
    paths.config.write_text(
        f'name = "{DOMAIN}"\nengine = "slurm"\n'
        f'[coupling]\nlisten = "127.0.0.1:{free_ports(1)}"\n'
        f'domains = {{ {PEER} = "127.0.0.1:{free_ports(1)}" }}\n'
        '[slurm]\nuser = "root"\n'
    )
    make_keys(paths.peers, [DOMAIN, PEER])
    log = folder / "slurm.log"
    with log.open("ab") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "cosched_daemons.controller"),
                *("--run-dir", str(paths.run_dir)),
            ],
            stdout=subprocess.PIPE,
            stderr=stream,
            cwd="/",
            env={**os.environ, "PATH": f"{commands}:{os.environ['PATH']}"},
        )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", log.read_text()
        yield Target(
            {"slurm controller": process.pid}, [log], {"gates": str(paths.gate_socket)}
        )
    finally:
        process.terminate()
        process.wait(WITHIN_S)
        process.stdout.close()


def _until(check):
    end = time.monotonic() + WITHIN_S
    while not (found := check()):
        assert time.monotonic() < end, "a daemon is not up"
        time.sleep(0.05)
    return found
