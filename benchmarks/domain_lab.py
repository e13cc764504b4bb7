"""Starts labs and domains on their nodes, for benchmarks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cosched.bench.run.interrupts import interruptible
from cosched.cli.cluster.site import lab_nodes
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import start_domain, stop_domain, write_domain
from cosched.config.domain import PORT, DomainConfig, SecuritySettings
from cosched.config.queue import QueueSettings
from cosched.config.symbiosis import SymbiosisSettings
from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import PlannedNode, plan_crowded_nodes
from cosched.linux.cpu_surroundings import usable_siblings

#: Whether the kernel shares CPUs between sessions first, and then between their processes.
_AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")


@contextmanager
def _one_group() -> Iterator[None]:
    """Lets the kernel share CPUs between processes without a look at their sessions.

    On nodes that share CPUs each agent's tasks are a session. With autogroup a rank that
    waits in sched_yield gives way to ranks of its own node alone, and the node uses its
    whole share to wait. An mpiexec in the lab has the ranks of all nodes in one session.
    On real nodes neither happens.
    """
    if not _AUTOGROUP.exists():
        yield
        return
    before = _AUTOGROUP.read_text()
    _AUTOGROUP.write_text("0\n")
    try:
        yield
    finally:
        _AUTOGROUP.write_text(before)


@contextmanager
def crowded_domain(
    run_dir: Path, nodes: int, slots: int, queue: QueueSettings | None = None
) -> Iterator[Lab]:
    """Starts a lab whose nodes share the CPUs of this machine, with a domain on it.

    The nodes have no scheduler daemons. slots: tasks of a job that a node takes. Both end
    with the context, and so do the jobs. A signal that ends the benchmark raises
    KeyboardInterrupt meanwhile.
    """
    planned = plan_crowded_nodes(nodes, 1, usable_siblings())
    with (
        interruptible(),
        _one_group(),
        new_lab(run_dir, planned, daemons=False) as lab,
        domain(lab, slots=slots, queue=queue or QueueSettings(), security=_root_of(lab)),
    ):
        yield lab


@contextmanager
def shared_domain(
    run_dir: Path, nodes: int, queue: QueueSettings, symbiosis: SymbiosisSettings
) -> Iterator[Lab]:
    """Starts a lab whose nodes have two CPUs each and share those of this machine, with a
    domain as of ``domain_on_halves``."""
    planned = plan_crowded_nodes(nodes, 2, usable_siblings())
    with _one_group(), domain_on_halves(run_dir, planned, queue, symbiosis) as lab:
        yield lab


@contextmanager
def domain_on_halves(
    run_dir: Path,
    planned: tuple[PlannedNode, ...],
    queue: QueueSettings,
    symbiosis: SymbiosisSettings,
) -> Iterator[Lab]:
    """Starts a lab of nodes of two CPUs with a domain on it. A half of a node takes one
    task.

    The nodes have scheduler daemons, which look at each job alone now and then. No job
    gives way to another one.
    """
    with interruptible(), new_lab(run_dir, planned) as lab:
        life.restart_daemons(run_dir, "--slowed-most", "off")
        with domain(lab, slots=2, queue=queue, symbiosis=symbiosis, security=_root_of(lab)):
            yield lab


def _root_of(lab: Lab) -> SecuritySettings:
    """Returns settings by which jobs of root may start tasks from any node of a lab."""
    return SecuritySettings(root_from=tuple(node.name for node in lab.nodes))


@contextmanager
def new_lab(
    run_dir: Path, planned: tuple[PlannedNode, ...], *, daemons: bool = True
) -> Iterator[Lab]:
    """Runs a lab of these nodes. daemons: with the scheduler daemons of each."""
    lab = life.make_lab(run_dir, planned, daemons=daemons)
    try:
        yield lab
    finally:
        life.down(run_dir)


@contextmanager
def domain(lab: Lab, steps: Path | None = None, **settings: Any) -> Iterator[None]:
    """Runs a domain on all nodes of a lab; ends it with all jobs, and removes its files.

    steps: where agents note the steps of each start. settings: those of ``DomainConfig``.
    """
    paths, places = DomainPaths(lab.run_dir), lab_nodes(lab, PORT + 1)
    first = lab.nodes[0]
    addresses = {place.name: place.address for place in places}
    write_domain(
        paths, DomainConfig("bench", f"{first.address}:{PORT}", addresses, **settings)
    )
    start_domain(paths, places, steps=steps)
    try:
        yield
    finally:
        stop_domain(paths, first.name, end_jobs=True)
        shutil.rmtree(paths.directory)
