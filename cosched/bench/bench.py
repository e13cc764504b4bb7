"""A whole bench: from the workload file to the table and the JSON document."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from cosched.bench import daemons
from cosched.bench.arms import Arm
from cosched.bench.build import build_program, default_cache
from cosched.bench.document import document
from cosched.bench.launcher import COSCHED_RUN, Launcher
from cosched.bench.meter import LoadMeter
from cosched.bench.progress import open_progress
from cosched.bench.results import summarise
from cosched.bench.session import Session
from cosched.bench.site import Site, host_site, lab_site
from cosched.bench.table import render
from cosched.bench.workload import JobSpec, Workload, load_workload
from cosched.core.errors import CoschedError
from cosched.core.settings import Settings
from cosched.core.units import NS_PER_S
from cosched.launch.family import Mpi
from cosched.launch.mpi import Places, find_mpi
from cosched.launch.program import inspect, which

DEFAULT_SLICE_S = Settings().slice_ns / NS_PER_S


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """What the user asked for.

    hosts: empty for the lab. settings: changes for the time of the bench.
    command_line: how the bench was called, for the document.
    """

    workload: Path
    arms: tuple[Arm, ...]
    repeats: int
    run_dir: Path
    nodes: int = 2
    cores_per_node: int = 1
    hosts: tuple[str, ...] = ()
    mpi: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    warm_up: bool = True
    command_line: tuple[str, ...] = ()
    cosched_run: tuple[str, ...] = COSCHED_RUN


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a bench found."""

    text: str
    document: dict[str, Any]
    failed: bool


def run_bench(options: BenchOptions, environ: Mapping[str, str], log: TextIO) -> Outcome:
    """Runs the bench, telling ``log`` how far it is."""
    workload = load_workload(options.workload)
    _check_fit(workload, options)
    Settings().changed(dict(options.settings))
    mpi = _mpi_at_hand(workload, options.mpi, environ)
    programs = {spec.name: _program(spec, mpi, environ) for spec in workload.jobs}
    started = datetime.now(timezone.utc)
    with ExitStack() as stack:
        site = stack.enter_context(_open_site(options))
        stack.enter_context(daemons.settings_changed(site, options.settings))
        answers = daemons.ask(site)
        nodes = daemons.describe(answers)
        session = Session(
            workload=workload,
            arms=options.arms,
            repeats=options.repeats,
            launcher=Launcher(site, programs, environ, options.mpi, options.cosched_run),
            meter=LoadMeter(site.cpus, daemons.pids(answers)) if site.cpus else None,
            slice_s=nodes[0]["settings"]["slice_s"] if nodes else DEFAULT_SLICE_S,
        )
        order = [arm for arm, _ in session.order()]
        with open_progress(log, order) as progress:
            if options.warm_up:
                session.warm_up(progress)
            runs = session.run(progress)
    summaries = [summarise(arm, runs) for arm in options.arms]
    context = {
        "command_line": list(options.command_line),
        "started": started.isoformat(timespec="seconds"),
        "cosched": version("cosched"),
        "kernel": os.uname().release,
        "mpi": _describe_mpi(mpi),
        "lab": site.lab,
        "hosts": list(site.hosts),
        "settings": nodes[0]["settings"] if nodes else None,
        "nodes": nodes,
    }
    return Outcome(
        text=render(_title(workload), _setting(mpi, site, nodes), summaries),
        document=document(workload, summaries, context),
        failed=any(summary.failed for summary in summaries),
    )


def _check_fit(workload: Workload, options: BenchOptions) -> None:
    nodes = len(options.hosts) or options.nodes
    for spec in workload.jobs:
        if spec.ppn is not None and spec.ppn * nodes < spec.ranks:
            raise CoschedError(
                f"{options.workload}, job '{spec.name}': {spec.ranks} ranks do not fit "
                f"on {nodes} nodes at ppn = {spec.ppn}; raise ppn or leave it out"
            )


def _mpi_at_hand(
    workload: Workload, asked: str | None, environ: Mapping[str, str]
) -> Mpi | None:
    """The MPI that the jobs will use. None if none is found and none has to be built."""
    words = next((spec.command for spec in workload.jobs if spec.command), ("cosched",))
    to_build = any(spec.source is not None for spec in workload.jobs)
    path = None if to_build else which(words[0], environ)
    places = Places(Path(sys.executable).parent, environ)
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
    program = build_program(spec.source, mpi.mpicc, default_cache(environ))
    return (str(program), *spec.args)


@contextmanager
def _open_site(options: BenchOptions) -> Iterator[Site]:
    if options.hosts:
        yield host_site(options.run_dir, options.hosts)
        return
    with lab_site(options.run_dir, options.nodes, options.cores_per_node) as site:
        yield site


def _describe_mpi(mpi: Mpi | None) -> dict[str, str] | None:
    if mpi is None:
        return None
    return {
        "family": mpi.family.value,
        "version": mpi.version,
        "mpiexec": str(mpi.mpiexec),
    }


def _title(workload: Workload) -> str:
    if not workload.description:
        return workload.title
    return f"{workload.title}: {workload.description}"


def _setting(mpi: Mpi | None, site: Site, nodes: Sequence[Mapping[str, Any]]) -> str:
    parts = [f"{mpi.family.title} {mpi.version}"] if mpi else []
    parts.append(f"{len(site.hosts)} nodes{' of the lab' if site.lab else ''}")
    if nodes:
        settings = nodes[0]["settings"]
        parts.append(f"slice {settings['slice_s']:g} s")
        parts.append(f"gmet {settings['gmet_s']:g} s")
        parts.append(f"align {'on' if settings['align'] else 'off'}")
    return ", ".join(parts)
