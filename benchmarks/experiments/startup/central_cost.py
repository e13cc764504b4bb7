"""Schedules one job in a process of its own, and prints the cost of that as JSON.

usage: python -m benchmarks.experiments.startup.central_cost DESIGN NODES TASKS cpu|memory
       python -m benchmarks.experiments.startup.central_cost WAY NODES WORKERS workers

cpu: CPU time from the request of a job until its job object can be sent; for few nodes the
median of several new managers. A probe, always the same computation, runs before and after,
since the speed of a virtual machine changes: ``probes`` is the time in units of the probe's
(``probe_s``).

workers: seconds until workers have chosen the nodes of a job of 32 tasks a node
(``workers``).

memory: bytes that are allocated then, less those before the request; and the growth of the
process.

Nothing is scheduled before. The managers are those of ``managers``, which no live domain
runs; the nodes are made up.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.experiments.startup.managers import CentralManager, PartitionedManager
from benchmarks.experiments.startup.placement import (
    WINDOWS,
    CentralObject,
    Placement,
    Submission,
    encode_central,
)
from benchmarks.experiments.startup.workers import choose_s
from cosched.core.cluster.queue.places.matching import Matcher, NodeOffer, Request
from cosched.core.cluster.startup.assignment import Units
from cosched.core.cluster.startup.jobobject import encode_object
from cosched.core.cluster.startup.seal import seal

#: A node's resources: enough for the largest number of tasks in the paper.
UNITS = {"cores": Units(tuple(range(128))), WINDOWS: Units(tuple(range(256)))}
TOTALS = {name: len(units.numbers) for name, units in UNITS.items()}
#: A process schedules on about this many nodes in all, so that short times are medians.
ROUND_NODES, MOST_ROUNDS = 4096, 15
FEATURES = frozenset({"infiniband"})
SECRET = bytes(32)

Manager = CentralManager | PartitionedManager


def old(nodes: int) -> CentralManager:
    """Returns a manager of the old design with idle nodes."""
    manager = CentralManager()
    for number in range(nodes):
        manager.join(number, f"n{number:05}", UNITS, FEATURES)
    return manager


def new(nodes: int) -> PartitionedManager:
    """Returns a manager of the new design with idle nodes."""
    manager = PartitionedManager()
    for number in range(nodes):
        manager.join(number, NodeOffer(f"n{number:05}", TOTALS, FEATURES))
    return manager


MANAGERS: dict[str, Callable[[int], Manager]] = {"old": old, "new": new}


def submission(nodes: int, tasks: int) -> Submission:
    """Returns a job with an environment of usual size, some 4 KB."""
    return Submission(
        number=1,
        uid=1000,
        gid=100,
        argv=("./application", "--input", "data"),
        environ={f"VARIABLE_{number:02}": "x" * 50 for number in range(60)},
        cwd="/home/user/run",
        request=Request(nodes, tasks, (("cores", 1), (WINDOWS, 1)), FEATURES),
    )


def sendable(made: Placement | CentralObject) -> bytes:
    """Returns what is sent. The new design's is sealed for each node, as in a live domain;
    the old one, from before, is not."""
    if isinstance(made, CentralObject):
        return encode_central(made)
    return seal(encode_object(made.object()), made.tied, [SECRET] * made.tree.size)


def cpu(design: str, nodes: int, tasks: int) -> dict[str, Any]:
    """Returns the CPU time to schedule a job on all nodes."""
    took_s, probes_s, ratios = [], [], []
    size = 0
    for _ in range(max(1, min(MOST_ROUNDS, ROUND_NODES // nodes))):
        manager = MANAGERS[design](nodes)
        job = submission(nodes, tasks)
        before_s = probe()
        began_s = time.process_time()
        made = manager.place(job)
        assert made is not None
        data = sendable(made)
        took_s.append(time.process_time() - began_s)
        probes_s.append((before_s + probe()) / 2)
        ratios.append(took_s[-1] / probes_s[-1])
        size = len(data)
    return {
        "cpu_s": statistics.median(took_s),
        "probes": statistics.median(ratios),
        "probe_s": statistics.median(probes_s),
        "object_bytes": size,
    }


def probe() -> float:
    """Returns the CPU time of some work as a manager's, which is always the same."""
    began_s = time.process_time()
    counts = dict.fromkeys(range(2000), 0)
    for _ in range(10):
        for number in counts:
            counts[number] += 1
    return time.process_time() - began_s


def memory(design: str, nodes: int, tasks: int) -> dict[str, Any]:
    """Returns the memory that a job takes once its object can be sent."""
    manager = MANAGERS[design](nodes)
    gc.collect()
    before = _resident()
    tracemalloc.start()
    job = submission(nodes, tasks)
    made = manager.place(job)
    assert made is not None
    data = sendable(made)
    allocated, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "memory_bytes": allocated,
        "peak_bytes": peak,
        "grown_bytes": _resident() - before,
        "object_bytes": len(data),
    }


def workers(way: str, nodes: int, number: int) -> dict[str, Any]:
    """Returns the time in which so many workers choose the nodes of a job."""
    matcher: Matcher[str] = Matcher()
    for at in range(nodes):
        matcher.join(NodeOffer(f"n{at:05}", TOTALS, FEATURES))
    request = submission(nodes, 32).request
    before_s = probe()
    took_s = choose_s(matcher, request, way, number)
    probe_s = (before_s + probe()) / 2
    return {"cpu_s": took_s, "probes": took_s / probe_s, "probe_s": probe_s}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def main(words: list[str]) -> None:
    design, nodes, tasks, what = words
    measure = {"cpu": cpu, "memory": memory, "workers": workers}[what]
    print(json.dumps(measure(design, int(nodes), int(tasks))))


if __name__ == "__main__":
    main(sys.argv[1:])
