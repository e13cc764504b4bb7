"""Computes one image on a domain of four nodes whose nodes come and go, in three ways: as a
malleable job of mpi4py, and by mpi4py.futures on two and on four nodes.

A guest has two nodes when the image is submitted. It ends, and later another one comes. The
pixels are paced, so that the nodes can share few CPUs (benchmarks/programs/image.py). The
three images must be the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.domain_lab import crowded_domain
from benchmarks.experiment import Bench, above_zero, positive
from benchmarks.mpi import PROGRAMS, find
from cosched import Client, Job
from cosched.cluster.answers import JobInfo
from cosched.config.queue import QueueSettings
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.tables import table

NODES = 4
GUEST_NODES = 2
#: The rank that gives the lines to the others shares a node with one of them.
RANKS_A_NODE = 2
_IMAGE = PROGRAMS / "image.py"
_MALLEABLE = PROGRAMS / "published" / "mandelbrot_malleable.py"
_FUTURES = PROGRAMS / "image_futures.py"
_GRACE_NS = 60 * NS_PER_S


@dataclass(frozen=True, slots=True)
class Row:
    """Holds the figures of one way to compute the image."""

    way: str  #: how it was computed
    wait_s: float  #: from its submission to its start
    total_s: float  #: from its submission to its end
    node_s: float  #: the time of its nodes, added up
    changes: int  #: of its size
    guest_wait_s: float  #: how long the second guest waited
    image: str  #: the digest


def ways(words: Sequence[str]) -> Mapping[str, Job]:
    """Returns the job of each way. words: the options of the image."""
    futures = (sys.executable, "-m", "mpi4py.futures", str(_FUTURES), *words)
    malleable = (sys.executable, str(_IMAGE), str(_MALLEABLE), *words)
    return {
        "malleable, 1-4 nodes": Job(malleable, minimum=1, ideal=NODES, ppn=1),
        "futures, 2 nodes": Job(futures, ranks=3, nodes=2),
        "futures, 4 nodes": Job(futures, ranks=5, nodes=NODES),
    }


def run(way: str, options: argparse.Namespace) -> Row:
    """Computes the image in one way, on a domain of its own. Raises CoschedError."""
    words = ["--width", "1", "--height", str(options.lines), "--pause", str(options.pause)]
    job = ways(words)[way]
    queue = QueueSettings("fcfs", grace_ns=_GRACE_NS, size="malleable")
    with (
        tempfile.TemporaryDirectory(prefix="cosched-b-") as name,
        crowded_domain(Path(name) / "run", NODES, RANKS_A_NODE, queue) as lab,
        Client.connect(lab.run_dir, lab.nodes[0].name) as client,
    ):
        output = Path(name) / "output"
        first = client.submit(_guest(options.first_guest))
        _until_running(client, first)
        image = client.submit(_image(job, output, options))
        _until_running(client, image)
        client.wait(first)
        time.sleep(options.alone)
        second = client.submit(_guest(options.second_guest))
        client.wait(image)
        client.wait(second)
        found, guest = client.job(image), client.job(second)
        lines = output.read_text().splitlines()
    if found["state"] != "done":
        raise CoschedError(f"{way}: {found['state']}: {found['reason']}")
    digest = next(line for line in lines if line.startswith("image "))
    return Row(
        way,
        _between(found, "submitted_ns", "started_ns"),
        _between(found, "submitted_ns", "ended_ns"),
        found["node_s"],
        found.get("resized") or 0,
        _between(guest, "submitted_ns", "started_ns"),
        digest.split()[-1],
    )


def _guest(seconds: float) -> Job:
    return Job(
        ["sleep", str(seconds)],
        ranks=GUEST_NODES,
        nodes=GUEST_NODES,
        name="guest",
        mpi="none",
        shim=False,
        exclusive=True,
        output=os.devnull,
        cwd="/",
    )


def _image(job: Job, output: Path, options: argparse.Namespace) -> Job:
    return job._replace(
        name="image",
        mpi=options.mpi,
        shim=False,
        output=str(output),
        environ={**os.environ, "PYTHONPATH": str(PROGRAMS.parents[1])},
        cwd="/",
    )


def _until_running(client: Client, number: int) -> None:
    while client.job(number)["state"] in ("queued", "starting"):
        time.sleep(0.05)


def _between(job: JobInfo, since: str, until: str) -> float:
    begin, end = job[since], job[until]  # type: ignore[literal-required]
    return float(end - begin) / NS_PER_S


def show(rows: Sequence[Row]) -> list[str]:
    """Returns the lines of the table."""
    head = ("image", "waits s", "total s", "node s", "changes", "guest waits s")
    cells = [
        (
            *(row.way, f"{row.wait_s:.1f}", f"{row.total_s:.1f}", f"{row.node_s:.0f}"),
            *(str(row.changes), f"{row.guest_wait_s:.1f}"),
        )
        for row in rows
    ]
    return table(head, cells, "<>>>>>")


def work(options: argparse.Namespace) -> tuple[list[str], object]:
    """Computes the image in each way. Raises CoschedError if two images differ."""
    rows = [run(way, options) for way in ways(())]
    if len({row.image for row in rows}) > 1:
        raise CoschedError(f"the images differ: {[row.image for row in rows]}")
    mpi = find(options.mpi).title
    return [mpi, *show(rows)], {"mpi": mpi, "rows": [asdict(row) for row in rows]}


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("futures", __doc__, "--lines 600")
    add = bench.add_argument
    add("--lines", type=positive, default=1200, help="of the image (default 1200)")
    add("--pause", type=above_zero, default=0.1, help="time of a line, s (default 0.1)")
    add("--first-guest", type=above_zero, default=20.0, help="its time, s (default 20)")
    add("--alone", type=above_zero, default=10.0, help="until the next, s (default 10)")
    add("--second-guest", type=above_zero, default=10.0, help="its time, s (default 10)")
    add("--mpi", help="the MPI, as in cosched-run")
    bench.run(work, words)


if __name__ == "__main__":
    main()
