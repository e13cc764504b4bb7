"""Starts two coupled clusters on this machine, for benchmarks and the demo: domains of
cosched, whose nodes are agents at loopback addresses, or small Slurms."""

from __future__ import annotations

import contextlib
import math
import os
import pwd
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import tomlkit

from cosched.bench.run.interrupts import interruptible, shielded
from cosched.cluster.client import Client
from cosched.cluster.coupling.snapshot_store import SnapshotStore
from cosched.cluster.engines.slurm.prolog_scripts import front_script, task_script
from cosched.cluster.keys import make_keys
from cosched.cluster.paths import DomainPaths
from cosched.cluster.submission import make_submission
from cosched.cluster.up.domain import (
    start_coupled,
    start_domain,
    stop_domain,
    write_domain,
)
from cosched.cluster.up.nodes import DomainNode
from cosched.config.coupling import CouplingTable
from cosched.config.domain import DomainConfig, LifeSettings
from cosched.config.queue import QueueSettings
from cosched.config.slurm import load_coupled
from cosched.core.cluster.coupling.snapshot import unpack
from cosched.core.config.tables import read
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.linux.ports import free_ports
from cosched.rundir.lock import is_held
from tests.labs import slurms

ENGINES = ("native", "slurm")
#: SlurmUser may not run a Python in a home of root.
SYSTEM_PYTHON = "/usr/bin/python3"
USER = "nobody"
#: How long a job that has yielded gets no nodes in Slurm. Each yield costs its nodes a
#: second or two there: they are cleared, and another job gets them.
SLURM_REST_S = 5.0
#: How long Slurm may take to give nodes to a mate. It looks at its queue each second.
SLURM_TRY_S = 1.5
#: Agents end within this time after their controller.
ENDS_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """Describes a job that is to be submitted."""

    argv: Sequence[str]  #: the program and its arguments
    nodes: int  #: number of nodes
    limit_s: float  #: time limit that its user asks for, in seconds
    output: Path  #: path of its output
    group: str = ""  #: that it shares with its mate in the other domain; empty: no mate


def granted_limit_s(engine: str, limit_s: float) -> float:
    """Returns the time limit that a job gets for the one that its user asks for. Slurm's
    are whole minutes."""
    return math.ceil(limit_s / 60) * 60 if engine == "slurm" else limit_s


class Domain(Protocol):
    """One of the clusters."""

    name: str
    paths: DomainPaths

    def start(self) -> None:
        """Starts it and waits until its nodes are there."""

    def scripts(self, nodes: int) -> int:
        """Returns how many nodes of a job run its script."""

    def submit(self, job: Wanted) -> int:
        """Submits a job; returns its number."""

    def end(self) -> None:
        """Ends it with all jobs."""


class Native:
    """A domain of cosched with ``nodes`` nodes."""

    def __init__(
        self,
        folder: Path,
        name: str,
        nodes: int,
        table: Mapping[str, Any],
        block: int = 0,
    ) -> None:
        self.name = name
        self.other = next(iter(table["domains"]))
        self.paths = DomainPaths(folder / name)
        first = free_ports(2 * (nodes + 1))
        addresses = [f"127.0.0.1:{first + 2 * place}" for place in range(nodes + 1)]
        self.places = [
            DomainNode(f"{name}{number}", address)
            for number, address in enumerate(addresses[1:], 1)
        ]
        self.config = DomainConfig(
            name,
            addresses[0],
            {place.name: place.address for place in self.places},
            slots=4,
            queue=QueueSettings(grace_ns=NS_PER_S, block=block),
            life=LifeSettings(lost_after_ns=30 * NS_PER_S),
            coupling=read(CouplingTable, table),
        )
        write_domain(self.paths, self.config)
        make_keys(self.paths.peers, [name])

    def start(self) -> None:
        start_domain(self.paths, self.places)

    def client(self) -> Client:
        """Returns a connection to the controller."""
        return Client.connect(self.paths.run_dir, self.places[0].name)

    def submit(self, job: Wanted) -> int:
        with self.client() as client:
            return client.submit(
                make_submission(
                    job.argv,
                    environ={"PATH": os.environ["PATH"]},
                    nodes=job.nodes,
                    ppn=1,
                    time_ns=round(job.limit_s * NS_PER_S),
                    output=str(job.output),
                    mates=f"mate={job.group}@{self.other}" if job.group else "",
                )
            )

    def scripts(self, nodes: int) -> int:
        return nodes

    def end(self) -> None:
        stop_domain(self.paths, self.places[0].name, end_jobs=True)
        for place in self.places:
            _await_agent_end(self.paths.agent_lock(place.name))


class Slurm:
    """A small Slurm with ``nodes`` nodes, and the controller that couples it."""

    def __init__(
        self, folder: Path, name: str, nodes: int, table: Mapping[str, Any]
    ) -> None:
        self.name = name
        self.other = next(iter(table["domains"]))
        self.paths = DomainPaths(folder / f"run.{name}")
        self.paths.directory.mkdir(parents=True)
        prolog = folder / f"prolog.{name}"
        port = free_ports(nodes + 1)
        tasks = folder / f"tasks.{name}"
        tasks.write_text(task_script())
        tasks.chmod(0o755)
        settings = (f"TaskProlog={tasks}",)
        cluster = slurms.Cluster(name, folder / name, port, prolog, nodes, settings)
        self.slurm = slurms.SmallSlurm(cluster, os.environ)
        document = {
            "name": name,
            "engine": "slurm",
            "coupling": {"yield_wait": f"{SLURM_REST_S:g}s", **table},
            "slurm": {
                "conf": str(cluster.conf),
                "poll": "500ms",
                "try": f"{SLURM_TRY_S:g}s",
            },
        }
        self.paths.config.write_text(tomlkit.dumps(document))
        gate, loaded = self.paths.gate_socket, load_coupled(self.paths.config)
        prolog.write_text(front_script(SYSTEM_PYTHON, gate, loaded.slurm))
        prolog.chmod(0o755)
        make_keys(self.paths.peers, [name])

    def start(self) -> None:
        try:
            self.slurm.start()
            start_coupled(self.paths)
        except BaseException:
            self.slurm.close()
            raise

    def submit(self, job: Wanted) -> int:
        minutes = round(granted_limit_s("slurm", job.limit_s) / 60)
        job.output.touch()
        shutil.chown(job.output, USER)
        words = ["sbatch", "--parsable", f"--time={minutes}", f"--nodes={job.nodes}"]
        words += [f"--output={job.output}", "--open-mode=append"]
        if job.group:
            words.append(f"--comment=cosched:mate={job.group}@{self.other}")
        script = " ".join(job.argv[2:]) if job.argv[0] == "/bin/sh" else " ".join(job.argv)
        return int(self.slurm.run(*words, f"--wrap={script}", user=USER))

    def scripts(self, nodes: int) -> int:
        return 1

    def end(self) -> None:
        self.slurm.close()
        stop_domain(self.paths, None, end_jobs=True)


def coupling_counts(domain: Domain) -> dict[str, Any]:
    """Returns how often each branch of a domain's coupling was taken, as it is stored."""
    with contextlib.closing(SnapshotStore(domain.paths.mates)) as memory:
        stored = memory.load()
    return {} if stored is None else msgspec.to_builtins(unpack(stored).state.counts)


@contextlib.contextmanager
def coupled_domains(
    folder: Path,
    engines: Mapping[str, str],
    nodes: int,
    schemes: Sequence[str],
    settings: Mapping[str, Any],
    block: int = 0,
) -> Iterator[list[Domain]]:
    """Starts two coupled clusters, and ends them with the context.

    A signal that ends the program raises KeyboardInterrupt meanwhile. After SIGKILL the
    clusters stay. engines: that of each, by name. settings: of ``[coupling]``, for both.
    block: the nodes of the least aligned block of native clusters; 0: any nodes.
    """
    ports = {name: free_ports(2) for name in engines}
    made: list[Domain] = []
    with interruptible(), contextlib.ExitStack() as ends:
        for (name, engine), scheme in zip(engines.items(), schemes, strict=True):
            (other,) = [each for each in engines if each != name]
            table = {
                "listen": f"127.0.0.1:{ports[name]}",
                "domains": {other: f"127.0.0.1:{ports[other]}"},
                **_accounts(engines[name], other, engines[other]),
                "scheme": scheme,
                **settings,
            }
            if engine == "native":
                made.append(Native(folder, name, nodes, table, block))
            else:
                made.append(Slurm(folder, name, nodes, table))
        for domain, other_domain in (made, made[::-1]):
            key = f"{domain.name}.public"
            shutil.copy(domain.paths.peers / key, other_domain.paths.peers / key)
        for domain in made:
            with shielded():
                domain.start()
                ends.callback(_end, domain)
        yield made


def _await_agent_end(lock: Path) -> None:
    """Waits until an agent has removed its files."""
    end = time.monotonic() + ENDS_WITHIN_S
    while is_held(lock):
        if time.monotonic() > end:
            raise CoschedError(f"{lock}: its agent has not ended in {ENDS_WITHIN_S:g} s")
        time.sleep(0.05)


def _end(domain: Domain) -> None:
    with shielded():
        domain.end()


def _accounts(engine: str, other: str, its_engine: str) -> dict[str, Any]:
    """Returns the settings by which the users of both domains are the same."""
    if engine == its_engine:
        return {"same_names": [other]}
    users = {"native": _own_name(), "slurm": USER}
    return {"users": {f"{other}/{users[its_engine]}": users[engine]}}


def _own_name() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name
