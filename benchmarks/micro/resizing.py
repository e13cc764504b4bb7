"""Measures what it costs a job to be malleable: a boundary, and a change by its phases.

A boundary without a change is one call into C, between two iterations. For a change, STEN
(benchmarks/programs/sten.py) runs under the MPI's own mpiexec, with real pages and played
agents, and all ranks on this machine. It grows from one rank and shrinks back, again and
again. The phases are those that rank 0 reports; "in all" is the time from the order to the
result. Beside it stands the time in which mpiexec starts as many ranks of Python with numpy
and mpi4py.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from msgspec import structs

from benchmarks.experiment import Bench, counted_steps, numbers, positive
from benchmarks.mpi import PROGRAMS, find
from cosched.core.cluster.resizing.agreement import ReportDone
from cosched.core.cluster.resizing.records import Times
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_MS
from cosched.launch.family import Mpi
from cosched.tables import table
from tests.tools.malleable_agents import PlayedAgents, mpi_environment

PHASES = Times.__struct_fields__


@dataclass(frozen=True, slots=True)
class Row:
    """Holds the medians of one kind of change."""

    family: str  #: the MPI
    change: str  #: the numbers of ranks, such as 1-2
    megabytes: int  #: of the grid
    phases_ms: dict[str, float]  #: as rank 0 reports them
    all_ms: float  #: from the order to the result
    start_ms: float  #: in which mpiexec starts the ranks that are added; 0: none


@contextmanager
def new_agents(nodes: int) -> Iterator[PlayedAgents]:
    """Makes the agents of some nodes; kills what is left of their program at the end."""
    with tempfile.TemporaryDirectory(prefix="cosched-b-") as name:
        agents = PlayedAgents(Path(name), nodes)
        try:
            yield agents
        finally:
            agents.close()


def finish(agents: PlayedAgents) -> str:
    """Waits for the end of the program; returns its output. Raises CoschedError."""
    status, output = agents.finish()
    if status:
        raise CoschedError(f"a program ended with status {status}: {output.strip()[-200:]}")
    return output


def boundary_ns(mpi: Mpi, rounds: int) -> list[float]:
    """Returns the time of a boundary in each round, in ns, without that of the loop."""
    with new_agents(1) as agents:
        agents.start(mpi.mpiexec.parent, [0], PROGRAMS / "boundaries.py", str(rounds))
        return [float(line) for line in finish(agents).split()]


def start_ms(mpi: Mpi, ranks: int) -> float:
    """Returns the time in which mpiexec starts ranks of Python that end at once."""
    folder = mpi.mpiexec.parent
    command = [
        *(str(mpi.mpiexec), "-n", str(ranks), str(folder / "python")),
        *("-c", "import numpy; from mpi4py import MPI"),
    ]
    since = time.perf_counter_ns()
    subprocess.run(command, env=mpi_environment(), check=True, capture_output=True)
    return (time.perf_counter_ns() - since) / NS_PER_MS


def measure(mpi: Mpi, ranks: int, megabytes: int, rounds: int) -> list[Row]:
    """Returns the row of growing from one rank, and that of shrinking back."""
    side = max(16, int((megabytes * 1e6 / 8) ** 0.5))
    grown, shrunk = [], []
    with new_agents(ranks) as agents:
        stop = agents.folder / "stop"
        agents.start(
            *(mpi.mpiexec.parent, [0], PROGRAMS / "sten.py"),
            *("--size", str(side), "--until", stop),
        )
        for _ in range(rounds + 1):
            grown.append(change(agents, range(ranks)))
            shrunk.append(change(agents, [0]))
        stop.touch()
        finish(agents)
    started = statistics.median(start_ms(mpi, ranks - 1) for _ in range(rounds))
    family = f"{mpi.family.title} {mpi.version}"
    return [
        # The first change waits until the program has begun.
        summarise(family, f"1-{ranks}", megabytes, grown[1:], started),
        summarise(family, f"{ranks}-1", megabytes, shrunk[1:], 0.0),
    ]


def change(agents: PlayedAgents, target: Sequence[int]) -> dict[str, float]:
    """Changes the job; returns the phases, and the time in all, in ms."""
    since = time.perf_counter_ns()
    report = agents.resize_to(target)
    all_ms = (time.perf_counter_ns() - since) / NS_PER_MS
    if not isinstance(report, ReportDone):
        raise CoschedError(f"the change was refused: {report.reason}")
    phases = structs.asdict(agents.results[-1].times)
    return {name: ns / NS_PER_MS for name, ns in phases.items()} | {"all": all_ms}


def summarise(
    family: str,
    what: str,
    megabytes: int,
    found: Sequence[dict[str, float]],
    started: float,
) -> Row:
    """Returns the medians of several changes."""
    middle = {name: statistics.median(each[name] for each in found) for name in found[0]}
    return Row(family, what, megabytes, middle, middle.pop("all"), started)


def show(rows: Sequence[Row]) -> list[str]:
    """Returns the lines of the table, in ms."""
    names = [name.removesuffix("_ns") for name in PHASES]
    head = ("family", "ranks", "MB", *names, "in all", "mpiexec")
    cells = [
        (
            *(row.family, row.change, str(row.megabytes)),
            *(f"{row.phases_ms[name]:.1f}" for name in PHASES),
            f"{row.all_ms:.1f}",
            f"{row.start_ms:.0f}" if row.start_ms else "",
        )
        for row in rows
    ]
    return table(head, cells, "<<>" + ">" * (len(PHASES) + 2))


def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
    """Returns the lines when they are measured, and all figures."""
    figures: dict[str, object] = {"boundary_ns": [], "changes": []}
    return _run(options, figures), figures


def _run(options: argparse.Namespace, figures: dict[str, object]) -> Iterator[str]:
    mpis = [find(each) for each in options.mpi or (None,)]
    costs = boundary_ns(mpis[0], options.rounds)
    figures["boundary_ns"] = costs
    yield f"a boundary without a change: {statistics.median(costs):.0f} ns"
    rows: list[Row] = []
    todo = [(m, r, size) for m in mpis for r in options.ranks for size in options.megabytes]
    with counted_steps("changes", len(todo)) as advance:
        for mpi, ranks, megabytes in todo:
            rows += measure(mpi, ranks, megabytes, options.rounds)
            figures["changes"] = [asdict(row) for row in rows]
            advance()
    yield from show(rows)


def main() -> None:
    bench = Bench("resizing", __doc__)
    add = bench.add_argument
    several = "an mpiexec or the folder of one; several are measured one after the other"
    add("--mpi", action="append", default=[], help=several)
    add("--ranks", type=numbers, default=[2], help="after growing, such as 2,4 (default 2)")
    add("--megabytes", type=numbers, default=[1], help="of the grid (default 1)")
    add("--rounds", type=positive, default=9, help="of each (default 9)")
    bench.run(run)


if __name__ == "__main__":
    main()
