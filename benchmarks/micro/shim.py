"""Measures the shim's cost for a message: half round trips with and without each carrier.

Two ranks play ping-pong (benchmarks/programs/pingpong.c) with their daemons up and no other
job. They use shared memory on this node, each rank on its own CPU, and TCP between two
nodes of a lab. The carriers alternate from launch to launch, so that slow changes of the
machine affect all of them. A launch gives the median of many short batches. A ratio
compares the launches of one round. The median over the rounds is printed with quartiles.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.domain_lab import new_lab
from benchmarks.experiment import Bench, need_cpus, positive, quartiles
from benchmarks.micro.load import new_node
from benchmarks.mpi import PROGRAMS, build, find
from benchmarks.progress_lines import counted_steps
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.lab.plan import plan_nodes
from cosched.launch.family import Family, Mpi
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.node.lifetime.start import NodeOptions
from cosched.tables import table

SIZES = (8, 1024, 65536, 1048576)
NONE = "none"
ARMS = (NONE, "shadow", "prefix")
LAUNCH_TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Transport:
    """Describes a transport of MPI messages."""

    name: str  #: for the table
    environ: Mapping[str, str]  #: variables that make the MPI choose it


@dataclass(frozen=True, slots=True)
class Row:
    """Holds one line of the table."""

    family: str  #: the MPI
    transport: str  #: the name of the transport
    carrier: str  #: how the sender's status travels, or no shim
    bytes: int  #: size of a message
    half_rtt_us: float  #: median of half a round trip, in microseconds
    extra_ns: float  #: median difference to no shim, in ns
    ratio: float  #: median ratio to no shim
    ratio_low: float  #: first quartile of that ratio
    ratio_high: float  #: third quartile of that ratio


def transports_of(mpi: Mpi, place: str) -> tuple[Transport, ...]:
    """Returns the transports of each family in the README.

    On virtual nodes shared memory must be off, because it would bypass the network.
    """
    if mpi.family is Family.OPENMPI:
        shared = "vader" if mpi.version.startswith("4") else "sm"
        return (
            Transport("ob1", {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": f"self,{shared},tcp"}),
            Transport(
                "ucx",
                {
                    "OMPI_MCA_pml": "ucx",
                    "OMPI_MCA_pml_ucx_tls": "any",
                    "OMPI_MCA_pml_ucx_devices": "any",
                    **({"UCX_TLS": "tcp,self"} if place == "tcp" else {}),
                },
            ),
        )
    if mpi.version.startswith("4"):
        return (Transport("ucx", {}),)
    return tuple(Transport(name, {"MPIR_CVAR_CH4_NETMOD": name}) for name in ("ucx", "ofi"))


@contextmanager
def this_node() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Starts daemons here; yields their run directory and options of cosched-run."""
    with new_node(NodeOptions(Settings())) as paths:
        yield paths.run_dir, ()


@contextmanager
def two_nodes() -> Iterator[tuple[Path, tuple[str, ...]]]:
    """A lab of two nodes with their daemons."""
    planned = plan_nodes(2, 1, usable_siblings())
    with (
        tempfile.TemporaryDirectory(prefix="cosched-b-", dir="/tmp") as directory,
        new_lab(Path(directory), planned) as lab,
    ):
        hosts = ",".join(node.name for node in lab.nodes)
        yield Path(directory), ("--hosts", hosts, "--ppn", "1")


PLACES = {"shm": this_node, "tcp": two_nodes}


def launch(
    words: Sequence[str], program: Path, batches: int, environ: Mapping[str, str]
) -> dict[int, float]:
    """Median half round trip, in microseconds, of each size in one launch."""
    command = [
        *(sys.executable, "-m", "cosched.cli.run.main", "-n", "2", *words),
        *(str(program), "--batches", str(batches), *map(str, SIZES)),
    ]
    output = output_of(
        command, " ".join(words), {**os.environ, **environ}, LAUNCH_TIMEOUT_S
    )
    found: dict[int, list[float]] = defaultdict(list)
    for line in output.splitlines():
        size, half_ns = line.split()
        found[int(size)].append(float(half_ns) / 1e3)
    return {size: statistics.median(values) for size, values in found.items()}


def measure(
    mpi: Mpi,
    place: str,
    transport: Transport,
    rounds: int,
    batches: int,
    advance: Callable[[], None],
) -> list[Row]:
    """The rows of one transport between two ranks at one place."""
    program = build(PROGRAMS / "pingpong.c", mpi)
    seen: dict[tuple[str, int], list[float]] = defaultdict(list)
    with PLACES[place]() as (run_dir, where):
        common = ("--run-dir", str(run_dir), "--mpi", str(mpi.mpiexec), *where)
        for number in range(rounds + 1):
            # The order differs from round to round; the first round is a warm-up.
            for arm in (ARMS[(number + k) % len(ARMS)] for k in range(len(ARMS))):
                how = ("--no-shim",) if arm == NONE else ("--carrier", arm)
                medians = launch((*common, *how), program, batches, transport.environ)
                for size, half_us in medians.items():
                    if number > 0:
                        seen[arm, size].append(half_us)
                advance()
    name = f"{transport.name} {place}"
    return [
        summarise(f"{mpi.family.title} {mpi.version}", name, arm, size, seen)
        for arm in ARMS
        for size in SIZES
    ]


def summarise(
    family: str,
    transport: str,
    carrier: str,
    size: int,
    seen: Mapping[tuple[str, int], Sequence[float]],
) -> Row:
    """One row, from the launches of all turns."""
    pairs = list(zip(seen[carrier, size], seen[NONE, size], strict=True))
    ratios = [with_shim / without for with_shim, without in pairs]
    low, middle, high = quartiles(ratios)
    return Row(
        family=family,
        transport=transport,
        carrier=carrier,
        bytes=size,
        half_rtt_us=statistics.median(seen[carrier, size]),
        extra_ns=statistics.median(1e3 * (a - b) for a, b in pairs),
        ratio=middle,
        ratio_low=low,
        ratio_high=high,
    )


def show(rows: Sequence[Row]) -> list[str]:
    """Returns the lines of a table of at most 80 columns."""
    head = (
        *("family", "over", "carrier", "bytes", "half rtt", "extra ns", "ratio"),
        "quartiles",
    )
    cells = [
        (
            *(row.family, row.transport, row.carrier, str(row.bytes)),
            *(f"{row.half_rtt_us:.3f}", f"{row.extra_ns:+.0f}", f"{row.ratio:.3f}"),
            f"{row.ratio_low:.2f}-{row.ratio_high:.2f}",
        )
        for row in rows
    ]
    return table(head, cells, "<<<>>>><")


def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
    """Returns the lines of each transport when it is measured, and all rows."""
    need_cpus(2)
    todo = [
        (mpi, place, transport)
        for mpi in map(find, options.mpi or (None,))
        for place in options.place or PLACES
        for transport in transports_of(mpi, place)
        if not options.transport or transport.name in options.transport
    ]
    if not todo:
        asked = ", ".join(options.transport)
        raise CoschedError(f"no transport {asked}; there are ucx, ofi, ob1")
    rows: list[Row] = []
    return _run(options, todo, rows), rows


def _run(
    options: argparse.Namespace, todo: Sequence[tuple[Mpi, str, Transport]], rows: list[Row]
) -> Iterator[str]:
    launches = (options.rounds + 1) * len(ARMS)
    for mpi, place, transport in todo:
        with counted_steps(f"{transport.name} {place}", launches) as advance:
            found = measure(mpi, place, transport, options.rounds, options.batches, advance)
        rows += found
        yield from show([row for row in found if row.carrier != NONE])


def main() -> None:
    bench = Bench("shim", __doc__)
    add = bench.add_argument
    several = "an mpiexec or the folder of one; several are measured one after the other"
    add("--mpi", action="append", default=[], help=several)
    add("--place", choices=[*PLACES], action="append", default=[])
    add("--transport", action="append", default=[], metavar="NAME")
    add("--rounds", type=positive, default=9, help="turns (default 9)")
    add("--batches", type=positive, default=100, help="a size and launch")
    bench.run(run)


if __name__ == "__main__":
    main()
