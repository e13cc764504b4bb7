"""Prepares the testbed of a bench: its nodes, its MPI and its built programs."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cosched.bench.results.document import arrivals_document, spec_document
from cosched.bench.run import daemons
from cosched.bench.run.interrupts import temporary_folder
from cosched.bench.run.launcher import COSCHED_RUN, Launcher, SlurmJobs
from cosched.bench.run.record import RunRecord
from cosched.bench.run.remote import RemoteSettings
from cosched.bench.run.session import Session
from cosched.bench.run.site import Site, host_site, lab_site
from cosched.bench.workload.build import build_program
from cosched.bench.workload.file import JobSpec, Workload
from cosched.core.counting import counted
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.lab.lab import describe_links
from cosched.lab.slurm import conf_path
from cosched.lab.slurm_conf import SHARED, all_cpus, partition
from cosched.launch.family import Mpi
from cosched.launch.mpi import SearchPath, find_mpi
from cosched.launch.nodes import lease_node
from cosched.launch.program import inspect, require, which
from cosched.linux.here import this_node
from cosched.node.lifetime.private_pair import start_private_pair
from cosched.node.sockets.client import find_daemon
from cosched.rundir.paths import NodePaths
from cosched.version import VERSION

LAB_NODES = 2


@dataclass(frozen=True, slots=True)
class TestbedOptions:
    """The place and the way in which jobs run."""

    run_dir: Path  #: the run directory of the lab or the daemons
    nodes: int | None = None  #: the size of a lab; None: LAB_NODES
    cores_per_node: int | None = None  #: CPUs of a node of the lab; None: any, or 1
    rate: int | None = None  #: the rate of the lab's links, in bits a second; None: any
    hosts: tuple[str, ...] = ()  #: names of nodes; empty: the lab
    mpi: str | None = None  #: the value of --mpi; None: the first program decides
    #: Changes for the whole bench; empty: none.
    settings: Mapping[str, str] = field(default_factory=dict)
    limit_s: float = float("inf")  #: the longest run; a longer one counts as failed
    cosched_run: tuple[str, ...] = COSCHED_RUN  #: the command that starts jobs
    set_with: tuple[str, ...] = ()  #: see remote.py; empty if all daemons can be reached
    shared_cpus: bool = False  #: measure even if nodes of the lab share CPUs
    slurm: bool = False  #: the Slurm of the lab starts the jobs of every arm

    @property
    def node_count(self) -> int:
        """Returns the number of nodes on which the jobs run."""
        return len(self.hosts) or self.nodes or LAB_NODES


@dataclass(frozen=True, slots=True)
class Testbed:
    """Nodes that are up, and sessions on them."""

    site: Site  #: the nodes
    mpi: Mpi | None  #: the jobs' MPI; None: none found, none needed
    sessions: Mapping[str, Session]  #: by the titles of their workloads
    nodes: Sequence[Mapping[str, Any]]  #: the settings of the daemons that can be reached
    #: Hosts that keep what they learnt of jobs; see daemons.py.
    remembering: tuple[str, ...]
    slurm: bool = False  #: the Slurm of the lab starts the jobs of every arm

    def context(self) -> dict[str, Any]:
        """Returns the conditions of the runs, for the document."""
        return {
            "cosched": VERSION,
            "kernel": os.uname().release,
            "mpi": _describe_mpi(self.mpi),
            "lab": self.site.lab,
            "rate_bits_per_s": self.site.rate,
            "hosts": list(self.site.hosts),
            **({"started by": "slurm"} if self.slurm else {}),
            "settings": self.nodes[0]["settings"] if self.nodes else None,
            "nodes": list(self.nodes),
        }

    def made_with(self) -> dict[str, Any]:
        """Returns what must be equal if runs are to be compared (see run_store.py)."""
        return {
            **self.context(),
            "machine": os.uname().nodename,
            "CPUs": os.cpu_count(),
            "CPUs of the nodes": None if self.site.cpus is None else sorted(self.site.cpus),
            "set on the nodes": self.site.remote.now if self.site.remote else None,
            "workload": {
                title: [
                    {**spec_document(spec), "sha256": _sha256(spec)}
                    for spec in session.workload.jobs
                ]
                for title, session in self.sessions.items()
            },
            "arrivals": self._arrivals,
            "run limit": self._limit_s,
        }

    @property
    def _arrivals(self) -> dict[str, Any] | None:
        """None without any, as in the files of older versions."""
        found = {
            title: arrivals_document(session.workload)
            for title, session in self.sessions.items()
        }
        return found if any(found.values()) else None

    @property
    def _limit_s(self) -> float | None:
        limits = {session.limit_s for session in self.sessions.values()}
        return next((limit for limit in limits if limit != float("inf")), None)

    def setting(self) -> str:
        """Returns one line: the MPI, the nodes and their settings."""
        parts = [f"{self.mpi.family.title} {self.mpi.version}"] if self.mpi else []
        nodes = counted(len(self.site.hosts), "node")
        parts.append(nodes + (" of the lab" if self.site.lab else ""))
        if self.site.lab:
            parts.append(describe_links(self.site.rate))
        if self.slurm:
            parts.append("started by Slurm")
        if self.nodes:
            settings = self.nodes[0]["settings"]
            parts.append(f"slice {settings['slice']}")
            parts.append(f"gmet {settings['gmet']}")
            parts.append(f"align {'on' if settings['align'] else 'off'}")
        return ", ".join(parts)


@contextmanager
def open_testbed(
    workloads: Sequence[Workload], options: TestbedOptions, environ: Mapping[str, str]
) -> Iterator[Testbed]:
    """Yields the testbed for these workloads; removes the lab if it made one."""
    for workload in workloads:
        _check_fit(workload, options)
        _check_programs(workload, environ)
    Settings().changed(dict(options.settings))
    jobs = [spec for workload in workloads for spec in workload.jobs]
    mpi = _mpi_at_hand(jobs, options.mpi, environ)
    programs = [
        {spec.name: _program(spec, mpi, environ) for spec in workload.jobs}
        for workload in workloads
    ]
    with ExitStack() as stack:
        site = stack.enter_context(_open_site(options, environ))
        if options.slurm:
            check_slurm(site, workloads)
        stack.enter_context(daemons.settings_changed(site, options.settings))
        record = RunRecord(stack.enter_context(temporary_folder()) / "runs.jsonl")
        family = mpi.family if mpi else None
        sessions = {
            workload.title: Session(
                workload,
                Launcher(
                    site,
                    built,
                    environ,
                    options.mpi,
                    options.cosched_run,
                    family,
                    SlurmJobs(site, family) if options.slurm else None,
                ),
                record,
                options.limit_s,
            )
            for workload, built in zip(workloads, programs, strict=True)
        }
        if len(sessions) < len(workloads):
            raise CoschedError("two of the workloads have the same title; rename one")
        nodes = daemons.describe(daemons.ask(site))
        remembering = daemons.remembering(site)
        yield Testbed(site, mpi, sessions, nodes, remembering, options.slurm)


def _check_fit(workload: Workload, options: TestbedOptions) -> None:
    nodes = options.node_count
    for spec in workload.jobs:
        if spec.first > nodes:
            raise CoschedError(
                f"{workload.origin}, job '{spec.name}': first = {spec.first} is beyond "
                f"the {counted(nodes, 'node')}"
            )
        if spec.ppn is not None and spec.place(nodes).stop > nodes:
            left = nodes - spec.first + 1
            raise CoschedError(
                f"{workload.origin}, job '{spec.name}': {spec.ranks} ranks do not fit "
                f"on {counted(left, 'node')} at ppn = {spec.ppn}; raise ppn or leave it out"
            )


def _check_programs(workload: Workload, environ: Mapping[str, str]) -> None:
    """Raises CoschedError for a program or C file that is missing here."""
    for spec in workload.jobs:
        try:
            _require_program(spec, environ)
        except CoschedError as error:
            raise CoschedError(f"{workload.origin}, job '{spec.name}': {error}") from None


def _require_program(spec: JobSpec, environ: Mapping[str, str]) -> None:
    """Raises CoschedError unless the job's program is there, seen from where it runs."""
    if spec.source is not None:
        if not spec.source.is_file():
            raise CoschedError(f"source '{spec.source}': no such file")
        return
    word = spec.command[0]
    if "/" in word and spec.cwd is not None:
        word = str(spec.cwd / word)
    require(word, {**environ, **spec.env})


def check_slurm(site: Site, workloads: Sequence[Workload]) -> None:
    """CoschedError unless the lab's Slurm can start these jobs on these nodes."""
    conf = conf_path(site.run_dir)
    if conf is None or partition(conf) != SHARED.partition:
        raise CoschedError(
            "--by-slurm: no Slurm lets jobs of the lab share CPUs: run 'cosched lab up', "
            f"then 'scripts/slurm-lab up --partition {SHARED.partition}'"
        )
    cpus = all_cpus(conf)
    for spec in (spec for workload in workloads for spec in workload.jobs):
        if spec.first > 1:
            raise CoschedError(
                f"--by-slurm: job '{spec.name}' has first = {spec.first}, and Slurm "
                "chooses the nodes itself"
            )
        if spec.ranks > cpus:
            raise CoschedError(
                f"--by-slurm: job '{spec.name}' has {spec.ranks} ranks, and Slurm counts "
                f"{counted(cpus, 'CPU')} on its nodes: start it with 'scripts/slurm-lab up "
                f"--partition {SHARED.partition} --cpus N', or use fewer ranks"
            )


def _mpi_at_hand(
    jobs: Sequence[JobSpec], asked: str | None, environ: Mapping[str, str]
) -> Mpi | None:
    """Returns the jobs' MPI; None if there is none and no program must be built."""
    words = next((spec.command for spec in jobs if spec.command), ("cosched",))
    to_build = any(spec.source is not None for spec in jobs)
    path = None if to_build else which(words[0], environ)
    places = SearchPath(Path(sys.executable).parent, environ)
    try:
        return find_mpi(inspect(words, environ, path), asked, places)
    except CoschedError:
        if to_build or asked is not None:
            raise
        return None


def _program(spec: JobSpec, mpi: Mpi | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    if spec.source is None:
        return spec.command
    if mpi is None or mpi.mpicc is None:
        where = mpi.mpiexec if mpi else "mpiexec"
        raise CoschedError(
            f"source '{spec.source}': no mpicc beside {where} to build it with; "
            "name another MPI with --mpi"
        )
    program = build_program(spec.source, mpi.mpicc, environ)
    return (str(program), *spec.args)


def _sha256(spec: JobSpec) -> str | None:
    return hashlib.sha256(spec.source.read_bytes()).hexdigest() if spec.source else None


@contextmanager
def _open_site(options: TestbedOptions, environ: Mapping[str, str]) -> Iterator[Site]:
    if options.hosts:
        for name in ("nodes", "cores_per_node", "rate"):
            if getattr(options, name) is not None:
                word = name.replace("_", "-")
                raise CoschedError(f"--{word} is for the nodes of a lab: leave out --hosts")
        site = host_site(options.run_dir, options.hosts)
        _check_cpus(site, options)
        remote = RemoteSettings(options.set_with) if options.set_with else None
        with _daemons_kept(site, environ):
            yield replace(site, remote=remote)
        return
    if options.set_with:
        raise CoschedError("--set-with needs --hosts; the nodes of a lab need no command")
    with lab_site(
        options.run_dir, options.node_count, options.cores_per_node, options.rate
    ) as site:
        _check_cpus(site, options)
        yield site


@contextmanager
def _daemons_kept(site: Site, environ: Mapping[str, str]) -> Iterator[None]:
    """Keeps daemons up, if all hosts are this machine: private ones if there are no others.
    Otherwise the first job of each run would start them and pay for that."""
    if site.lab or site.node_cpus is None:
        yield
        return
    here = NodePaths(site.run_dir, this_node(environ))
    with closing(
        lease_node(here, find_daemon, start_private_pair, uid=os.geteuid(), job="bench")
    ):
        yield


def _check_cpus(site: Site, options: TestbedOptions) -> None:
    if site.shares_cpus and not options.shared_cpus:
        raise CoschedError(
            "the lab's nodes share CPUs, so times mean little: measure with --shared-cpus, "
            "or in a lab without --share-cpus"
        )


def _describe_mpi(mpi: Mpi | None) -> dict[str, str] | None:
    if mpi is None:
        return None
    return {
        "family": mpi.family.value,
        "version": mpi.version,
        "mpiexec": str(mpi.mpiexec),
    }
