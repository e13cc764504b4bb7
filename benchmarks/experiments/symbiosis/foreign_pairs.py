"""Runs programs of others on the halves of a node: hpcc, LAMMPS and fio beside each other.

HPC Challenge measures itself: one run of it is STREAM, RandomAccess (GUPS), PTRANS, matrix
products and an FFT, one after the other. So the speed of each part is known alone and
beside each program. LAMMPS is a melting crystal, and prints the time of its loop. fio reads
and writes a file at random places, past the caches of the kernel.

A lab node has two CPUs of this machine, one for each half. Each program runs alone, then
beside each program, again and again as long as it lasts. LAMMPS and fio also run once at
once: the time of both is set beside that of one after the other, and the time of each
beside its own alone. fio moves as much as it can while LAMMPS runs alone. Then cosched's
own findings are printed: the limits of the programs beside their labels, and the pairs
that the domain has learned. The programs are Debian's: apt-get install hpcc lammps fio.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.commands import output_of
from benchmarks.domain_lab import domain_on_halves
from benchmarks.experiment import Bench, positive
from benchmarks.experiments.symbiosis.foreign_programs import Foreign, Rates, programs
from benchmarks.mpi import find
from benchmarks.progress_lines import counted_steps
from cosched import Client, Job
from cosched.cluster.answers import JobInfo
from cosched.config.queue import QueueSettings
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_nodes
from cosched.launch.family import Mpi
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.tables import table

#: So many neighbours are submitted for one run: they come one after the other.
NEIGHBOURS = 64
#: The time between two looks at a job.
PAUSE_S = 0.05
ALONE = ""
#: fio moves so much at first, to find how much lasts as long as LAMMPS.
TRIAL_MEGABYTES = 4000
#: A program that computes and one that waits for the disk; they run at once, too.
TOGETHER = ("lammps", "fio")


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Programs that ran at once."""

    took_s: float  #: from the first start to the last end
    each_s: Mapping[str, float]  #: the time of each


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a program."""

    program: str  #: its name
    beside: str  #: the program on the other half, or ``ALONE``
    took_s: float  #: from its start to its end
    rates: Rates  #: its speeds


class Node:
    """A lab node with two halves, and the programs that run there."""

    def __init__(
        self, client: Client, mpi: Mpi, found: Mapping[str, Foreign], folder: Path
    ) -> None:
        self._client = client
        self._mpi = mpi
        self._programs = found
        self._folder = folder
        self._runs = 0

    def run(self, name: str, beside: str) -> Run:
        """Runs a program. beside: the program on the other half, or ``ALONE``."""
        others = []
        if beside:
            others = [self._submit(beside)[0]]
            self._await(others[0])
        number, folder = self._submit(name)
        others += [self._submit(beside)[0] for _ in range(NEIGHBOURS - 1) if beside]
        ended = self._client.wait(number)
        for other in others:
            if not self._is_over(other):
                self._client.cancel(other)
        for other in others:
            self._client.wait(other)
        if ended["status"] != 0:
            raise CoschedError(f"{name} beside {beside or 'nothing'}: {ended['reason']}")
        took_s = _took_ns([ended]) / NS_PER_S
        return Run(name, beside, took_s, self._programs[name].read(folder))

    def use(self, found: Mapping[str, Foreign]) -> None:
        """Runs other programs from now on."""
        self._programs = found

    def run_together(self, names: Sequence[str]) -> AtOnce:
        """Runs programs at once."""
        numbers = [self._submit(name)[0] for name in names]
        ended = [self._client.wait(number) for number in numbers]
        for name, one in zip(names, ended, strict=True):
            if one["status"] != 0:
                raise CoschedError(f"{name} beside others: {one['reason']}")
        each_s = {
            name: _took_ns([one]) / NS_PER_S for name, one in zip(names, ended, strict=True)
        }
        return AtOnce(_took_ns(ended) / NS_PER_S, each_s)

    def _submit(self, name: str) -> tuple[int, Path]:
        program = self._programs[name]
        self._runs += 1
        folder = self._folder / f"{self._runs}-{name}"
        folder.mkdir()
        program.prepare(folder)
        job = Job(
            program.argv,
            ranks=1,
            name=name,
            limited_by=[program.label],
            output="out",
            mpi=str(self._mpi.mpiexec),
            environ=self._environ(),
            cwd=str(folder),
        )
        return self._client.submit(job), folder

    def _environ(self) -> dict[str, str]:
        """Returns the variables of a program. Debian's programs get the MPI of the domain,
        whose library has the same name."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        library = str(self._mpi.mpiexec.parent.parent / "lib")
        return {**os.environ, **threads, "LD_LIBRARY_PATH": library}

    def _await(self, number: int) -> None:
        while self._client.job(number)["state"] in ("queued", "starting"):
            time.sleep(PAUSE_S)

    def _is_over(self, number: int) -> bool:
        return self._client.job(number)["ended_ns"] is not None


def _took_ns(jobs: Sequence[JobInfo]) -> int:
    """Returns the time from the first start to the last end of ended jobs."""
    begun = min(job["started_ns"] or 0 for job in jobs)
    return max(job["ended_ns"] or 0 for job in jobs) - begun


def findings(lab: Lab) -> dict[str, str]:
    """Returns what cosched prints of labels and of pairs."""
    environ = {**os.environ, "COSCHED_RUN_DIR": str(lab.run_dir)}
    cosched = (sys.executable, "-m", "cosched.cli.main")
    return {
        "labels": output_of([*cosched, "history", "--labels"], "history", environ),
        "pairs": output_of([*cosched, "advise", "--pairs"], "advise", environ),
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the speeds of all runs, and cosched's findings."""
    found, mpi = programs(options, TRIAL_MEGABYTES), find(options.mpi)
    beside = (ALONE, *found)
    runs: list[Run] = []
    at_once: list[AtOnce] = []
    symbiosis = SymbiosisSettings(parts=2, slowed_most=0.0)
    with (
        tempfile.TemporaryDirectory(prefix="cosched-f-") as folder,
        domain_on_halves(
            Path(folder) / "run",
            plan_nodes(1, 2, usable_siblings()),
            QueueSettings(),
            symbiosis,
        ) as lab,
        Client.connect(lab.run_dir, lab.nodes[0].name) as client,
        counted_steps("runs", options.repeat * (len(found) * len(beside) + 1)) as advance,
    ):
        node = Node(client, mpi, found, Path(folder))
        megabytes = options.megabytes or megabytes_of(node)
        node.use(programs(options, megabytes))
        for _ in range(options.repeat):
            for name in found:
                for other in beside:
                    runs.append(node.run(name, other))
                    advance()
            at_once.append(node.run_together(TOGETHER))
            advance()
        return {
            "mpi": mpi.title,
            "runs": [asdict(run) for run in runs],
            "megabytes": megabytes,
            "at_once": [asdict(one) for one in at_once],
            "findings": findings(lab),
        }


def megabytes_of(node: Node) -> int:
    """Returns how much fio moves while LAMMPS runs, each alone."""
    computes, waits = (node.run(name, ALONE).took_s for name in TOGETHER)
    return max(1, round(TRIAL_MEGABYTES * computes / waits))


def speeds(runs: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the median speed of each part beside each program / alone."""
    rates: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for part, rate in run["rates"].items():
            rates.setdefault(part, {}).setdefault(run["beside"], []).append(rate)
    return {
        part: {
            other: statistics.median(values) / statistics.median(by_other[ALONE])
            for other, values in by_other.items()
            if other != ALONE
        }
        for part, by_other in rates.items()
    }


def together(document: Mapping[str, Any]) -> list[str]:
    """Returns lines about the programs that ran at once."""
    times: dict[tuple[str, str], list[float]] = {}
    for run in document["runs"]:
        times.setdefault((run["program"], run["beside"]), []).append(run["took_s"])
    took_s = {key: statistics.median(values) for key, values in times.items()}
    one, other = TOGETHER
    alone_s = took_s[one, ALONE], took_s[other, ALONE]
    both_s = statistics.median(run["took_s"] for run in document["at_once"])
    own = [
        statistics.median(run["each_s"][name] for run in document["at_once"]) / alone
        for name, alone in zip(TOGETHER, alone_s, strict=True)
    ]
    alone = f"{one} ({alone_s[0]:.1f} s alone) and {other} ({alone_s[1]:.1f} s)"
    return [
        f"{alone} at once: {both_s / sum(alone_s):.2f} of one after the other;",
        f"{one} takes {own[0]:.2f} and {other} {own[1]:.2f} of its time alone",
    ]


def lines_of(document: Mapping[str, Any]) -> list[str]:
    """Returns the matrix and the findings."""
    found = speeds(document["runs"])
    others = sorted({other for row in found.values() for other in row})
    rows = [
        (part, *(f"{row[other]:.2f}" for other in others)) for part, row in found.items()
    ]
    head = ("part", *(f"beside {other}" for other in others))
    count = len(document["runs"])
    return [
        f"{document['mpi']}, {count} runs; speed / speed alone, medians",
        *table(head, rows, "<" + ">" * len(others)),
        "",
        *together(document),
        "",
        "what limited the programs (cosched history --labels):",
        document["findings"]["labels"].rstrip(),
        "",
        "pairs (cosched advise --pairs):",
        document["findings"]["pairs"].rstrip(),
    ]


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the lines to print, and the document."""
    document = measure(options)
    return lines_of(document), document


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("foreign_pairs", __doc__, "--repeat 3 --json pairs.json")
    bench.add_repeat(3, "runs of each program beside each other one")
    add = bench.add_argument
    add("--mpi", help="an mpiexec or the folder of one: an Open MPI")
    add("--order", type=positive, default=3000, help="of hpcc's matrix (default 3000)")
    add("--size", type=positive, default=20, help="of the crystal (default 20)")
    add("--steps", type=positive, default=1000, help="of LAMMPS (default 1000)")
    add(
        "--megabytes",
        type=positive,
        help="that fio moves (default: as many as last as long as LAMMPS)",
    )
    bench.run(run, words)


if __name__ == "__main__":
    main()
