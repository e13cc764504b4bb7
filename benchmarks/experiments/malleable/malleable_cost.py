"""Measures what a change of a malleable job's size costs, by phases, on nodes of a lab.

For each number of nodes N and each amount of data a round has, one after the other:
mpiexec, which starts ranks until they come to their first barrier: one, and N/2; a job
that begins on N/2 nodes, grows to N, gives back one node, gets one, moves off a node, and
gives back half; at last its restart: it saves its data, ends, and a rigid job begins on N
nodes and reads them.

The domain, its agents and the MPI are real. All nodes share this machine's CPUs, and ranks
that wait in MPI use them, so times grow with the nodes. Compare within a row: the ratios
are those of one round, their medians and quartiles are over the rounds. "stood" is the time
in which the job stood still. "all" is the time from the queue's order until the change was
done, with the rest of an iteration of 20 ms.

At first it measures an iteration boundary without a change.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.domain_lab import crowded_domain
from benchmarks.experiment import Bench, numbers, positive, quartiles
from benchmarks.experiments.malleable.measured_job import (
    LANGUAGES,
    PHASES,
    Change,
    Program,
    Scene,
)
from benchmarks.mpi import find
from benchmarks.progress_lines import counted_steps
from cosched.bench.measure.speed import SpeedProbe, whole_cores
from cosched.config.queue import QueueSettings
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.tables import markdown

_BOUNDARY_ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Point:
    """The program and the sizes of a row."""

    mpi: str  #: its name and version
    language: str  #: the program is written in it
    nodes: int  #: the most of the job
    megabytes: int  #: its data


@dataclass(frozen=True, slots=True)
class Round:
    """The measurements of one round at a point."""

    point: Point  #: where
    changes: dict[str, Change]  #: by their names, such as ``4 to 8``
    mpiexec_ms: dict[str, float]  #: beside the changes that start as many ranks
    restart_ms: dict[str, float]  #: beside the change to as many nodes
    probe_us: float | None  #: the CPU time of the speed probe; None: not measured

    def all_to_mpiexec(self, name: str) -> float | None:
        """Returns the time of a change divided by that of mpiexec; None without one."""
        other = self.mpiexec_ms.get(name)
        return None if other is None else self.changes[name].all / other

    def stood_to_mpiexec(self, name: str) -> float | None:
        """Returns the same for the time in which the job stood still."""
        other = self.mpiexec_ms.get(name)
        return None if other is None else self.changes[name].stood / other

    def restart_to_all(self, name: str) -> float | None:
        """Returns the time of a restart divided by that of a change; None without one."""
        other = self.restart_ms.get(name)
        return None if other is None else other / self.changes[name].all


def measure(scene: Scene, point: Point) -> Round:
    """Carries out one round."""
    most, half = point.nodes, point.nodes // 2
    changes: dict[str, Change] = {}
    started: dict[str, float] = {}
    more, one, move = f"{half} to {most}", f"{most - 1} to {most}", "move"
    with SpeedProbe(whole_cores(frozenset().union(*usable_siblings()))) as speed:
        started[one] = scene.mpiexec_s(1) * 1e3
        if more != one:
            started[more] = scene.mpiexec_s(half) * 1e3
        with scene.job(point.megabytes, half) as job:
            changes[more] = job.resize(most)
            if more != one:
                changes[f"{most} to {most - 1}"] = job.resize(most - 1)
                changes[one] = job.resize(most)
            changes[move] = job.migrate()
            changes[f"{most} to {half}"] = job.resize(half)
            restart_ms = {more: job.restart_s(most) * 1e3}
    started[move] = started[one]
    return Round(point, changes, started, restart_ms, speed.probe_us)


def rows_of(rounds: Sequence[Round]) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each change at one point. rounds: all of that point."""
    point = rounds[0].point
    for name in rounds[0].changes:
        found = [each.changes[name] for each in rounds]
        phases = (_middle(each.phases[phase] for each in found) for phase in PHASES)
        low, all_ms, high = quartiles([each.all for each in found])
        yield (
            *(point.mpi, point.language, str(point.nodes), str(point.megabytes), name),
            *phases,
            _middle(each.stood for each in found),
            f"{all_ms:.0f} ({low:.0f}-{high:.0f})",
            _beside([each.mpiexec_ms.get(name) for each in rounds]),
            _ratio([each.all_to_mpiexec(name) for each in rounds]),
            _ratio([each.stood_to_mpiexec(name) for each in rounds]),
            _beside([each.restart_ms.get(name) for each in rounds]),
            _ratio([each.restart_to_all(name) for each in rounds]),
        )


def _middle(times: Iterable[float]) -> str:
    return f"{statistics.median(times):.0f}"


def _beside(times: Sequence[float | None]) -> str:
    """Returns the median of times that each round has, or that none has."""
    known = [each for each in times if each is not None]
    return _middle(known) if known else ""


def _ratio(ratios: Sequence[float | None]) -> str:
    """Returns the median and the quartiles of ratios, which each round has, or none."""
    known = [each for each in ratios if each is not None]
    if not known:
        return ""
    low, middle, high = quartiles(known)
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


HEAD = (
    *("MPI", "program", "nodes", "MB", "change", *PHASES, "stood", "all", "mpiexec"),
    *("all/mpiexec", "stood/mpiexec", "restart", "restart/all"),
)


def show(rounds: Sequence[Round]) -> list[str]:
    """Returns the lines of the table, in ms."""
    by_point: dict[Point, list[Round]] = {}
    for each in rounds:
        by_point.setdefault(each.point, []).append(each)
    cells = [row for each in by_point.values() for row in rows_of(each)]
    return markdown(HEAD, cells)


def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
    """Returns the lines once they are measured, and all figures."""
    figures: dict[str, object] = {"command": options.command}
    return _run(options, figures), figures


def _run(options: argparse.Namespace, figures: dict[str, object]) -> Iterator[str]:
    mpis = [find(each) for each in options.mpi or (None,)]
    languages = options.language or LANGUAGES
    programs = [Program(mpi, each) for mpi in mpis for each in languages]
    points = [
        Point(each.title, each.language, nodes, megabytes)
        for each in programs
        for nodes in options.nodes
        for megabytes in options.megabytes
    ]
    of_title = {(each.title, each.language): each for each in programs}
    rounds: list[Round] = []
    boundaries: dict[str, list[float]] = {}
    queue = QueueSettings("fcfs", size="malleable")
    with (
        tempfile.TemporaryDirectory(prefix="cosched-c-") as name,
        crowded_domain(Path(name) / "run", max(options.nodes) + 1, 1, queue) as lab,
        counted_steps("rounds", options.repeat * len(points)) as advance,
    ):
        for program in programs:
            scene = Scene(lab, program, Path(name))
            title = f"{program.title}, {program.language}"
            boundaries[title] = scene.boundaries_ns(_BOUNDARY_ROUNDS)
        figures["boundaries_ns"] = boundaries
        for _ in range(options.repeat):
            for point in points:
                program = of_title[point.mpi, point.language]
                rounds.append(measure(Scene(lab, program, Path(name)), point))
                figures["rounds"] = [asdict(each) for each in rounds]
                advance()
    for title, times in boundaries.items():
        middle = statistics.median(times)
        yield f"{title}: a boundary without a change: {middle:.0f} ns"
    yield from show(rounds)


def _amounts(text: str) -> list[int]:
    """Returns whole numbers from 0 on, which have commas between them, for argparse."""
    return [0 if word == "0" else positive(word) for word in text.split(",")]


def main() -> None:
    bench = Bench("malleable_cost", __doc__, "--nodes 2,4,8,16 --repeat 3")
    add = bench.add_argument
    several = "an mpiexec or the folder of one; several are measured in turns"
    add("--mpi", action="append", default=[], help=several)
    add(
        "--language",
        action="append",
        choices=LANGUAGES,
        default=[],
        help="of the program (default all)",
    )
    add("--nodes", type=numbers, default=[4], help="of the job at most (default 4)")
    add("--megabytes", type=_amounts, default=[1], help="of its data (default 1)")
    bench.add_repeat(5, "rounds at each point")
    bench.run(run)


if __name__ == "__main__":
    main()
