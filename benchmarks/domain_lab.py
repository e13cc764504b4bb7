"""Starts a lab with a domain on all of its nodes, for benchmarks of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosched.bench.run.interrupts import interruptible
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.domain import start_domain, stop_domain, write_domain
from cosched.cluster.up.places import lab_places
from cosched.config.domain import PORT, DomainConfig, QueueSettings
from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_crowded_nodes

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
    with interruptible(), _one_group(), _crowded_lab(run_dir, nodes) as lab:
        paths, places = DomainPaths(run_dir), lab_places(lab, PORT + 1)
        first = lab.nodes[0]
        addresses = {place.name: place.address for place in places}
        controller = f"{first.address}:{PORT}"
        settings = queue or QueueSettings()
        write_domain(paths, DomainConfig("bench", controller, addresses, slots, settings))
        start_domain(paths, places)
        try:
            yield lab
        finally:
            stop_domain(paths, first.name, end_jobs=True)


@contextmanager
def _crowded_lab(run_dir: Path, nodes: int) -> Iterator[Lab]:
    planned = plan_crowded_nodes(nodes, 1, life.usable_siblings())
    lab = life.make_lab(run_dir, planned, daemons=False)
    try:
        yield lab
    finally:
        life.down(run_dir)
