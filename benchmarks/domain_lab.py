"""Starts a lab with a domain on all of its nodes, for benchmarks of the domain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cosched.cluster.config import PORT, DomainConfig, QueueSettings
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up import lab_places, start_domain, stop_domain, write_domain
from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_crowded_nodes


@contextmanager
def crowded_domain(
    run_dir: Path, nodes: int, slots: int, queue: QueueSettings | None = None
) -> Iterator[Lab]:
    """Starts a lab whose nodes share the CPUs of this machine, with a domain on it.

    The nodes have no scheduler daemons. slots: tasks of a job that a node takes. Both end
    with the context, and so do the jobs.
    """
    planned = plan_crowded_nodes(nodes, 1, life.usable_siblings())
    lab = life.make_lab(run_dir, planned, daemons=False)
    try:
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
    finally:
        life.down(run_dir)
