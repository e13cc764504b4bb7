"""Runs programs of others on the halves of a node: hpcc and LAMMPS beside each other.

HPC Challenge measures itself: one run of it is STREAM, RandomAccess (GUPS), PTRANS, matrix
products and an FFT, one after the other. So the speed of each part is known alone and
beside each program. LAMMPS is a melting crystal, and prints the time of its loop.

A lab node has two CPUs of this machine, one for each half. Each program runs alone, then
beside each program, again and again as long as it lasts. Then cosched's own findings are
printed: the limits of the programs beside their labels, and the pairs that the domain has
learned. The programs are Debian's: apt-get install hpcc lammps.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.commands import output_of
from benchmarks.domain_lab import domain_on_halves
from benchmarks.experiment import Bench, positive
from benchmarks.mpi import find
from benchmarks.progress_lines import counted_steps
from cosched import Client, Job
from cosched.config.queue import QueueSettings
from cosched.config.symbiosis import SymbiosisSettings
from cosched.core.errors import CoschedError
from cosched.lab import life
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_nodes
from cosched.launch.family import Mpi
from cosched.tables import table

HPCC_INPUT = Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
#: Results of hpcc's summary that are speeds, and their names here.
PARTS: Mapping[str, str] = {
    "SingleSTREAM_Triad": "STREAM",
    "SingleRandomAccess_GUPs": "RandomAccess",
    "PTRANS_GBs": "PTRANS",
    "SingleDGEMM_Gflops": "DGEMM",
    "SingleFFT_Gflops": "FFT",
}
LAMMPS_INPUT = """\
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {size} 0 {size} 0 {size}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
run {steps}
"""
#: So many neighbours are submitted for one run: they come one after the other.
NEIGHBOURS = 64
#: The time between two looks at a job.
PAUSE_S = 0.05
ALONE = ""

#: The speeds of the parts of a run; more is faster.
Rates = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Foreign:
    """A program of others."""

    argv: Sequence[str]  #: the command
    package: str  #: the package of Debian that has it
    label: str  #: the limit that its user names
    prepare: Callable[[Path], None]  #: puts its input into a folder
    read: Callable[[Path], Rates]  #: returns its speeds, from its folder


def programs(options: argparse.Namespace) -> dict[str, Foreign]:
    """Returns the programs by name. Raises CoschedError if one is not installed."""

    def fill_hpcc(folder: Path) -> None:
        text = HPCC_INPUT.read_text()
        for name, value in (("Ns", options.order), ("Ps", 1), ("Qs", 1)):
            text = re.sub(rf"^\S+(\s+{name})$", rf"{value}\1", text, flags=re.MULTILINE)
        (folder / "hpccinf.txt").write_text(text)

    def fill_lammps(folder: Path) -> None:
        text = LAMMPS_INPUT.format(size=options.size, steps=options.steps)
        (folder / "in.melt").write_text(text)

    lammps = ("lmp", "-log", "none", "-in", "in.melt")
    found = {
        "hpcc": Foreign(("hpcc",), "hpcc", "memory", fill_hpcc, read_hpcc),
        "lammps": Foreign(lammps, "lammps", "cpu", fill_lammps, read_lammps),
    }
    for program in found.values():
        if shutil.which(program.argv[0]) is None:
            raise CoschedError(
                f"{program.argv[0]} is not installed: apt-get install {program.package}"
            )
    if not HPCC_INPUT.exists():
        raise CoschedError(f"{HPCC_INPUT} is missing; it is a part of Debian's hpcc")
    return found


def read_hpcc(folder: Path) -> dict[str, float]:
    """Returns the speeds of the parts. Raises CoschedError if a part was not right."""
    path = folder / "hpccoutf.txt"
    text = path.read_text() if path.exists() else ""
    if "Success=1" not in text.splitlines():
        raise CoschedError("hpcc: its own checks failed")
    found = {}
    for key, name in PARTS.items():
        value = re.search(rf"^{key}=(\S+)$", text, flags=re.MULTILINE)
        if value is None:
            raise CoschedError(f"hpcc: its summary has no {key}")
        found[name] = float(value[1])
    return found


def read_lammps(folder: Path) -> dict[str, float]:
    """Returns the loops a second. Raises CoschedError if there was no loop."""
    found = re.search(r"^Loop time of (\S+) on", (folder / "out").read_text(), re.MULTILINE)
    if found is None:
        raise CoschedError("lammps: it did not print the time of its loop")
    return {"LAMMPS": 1.0 / float(found[1])}


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

    def run(self, name: str, beside: str) -> Rates:
        """Returns the speeds of a program. beside: the program on the other half, or
        ``ALONE``."""
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
        return self._programs[name].read(folder)

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
    found, mpi = programs(options), find(options.mpi)
    beside = (ALONE, *found)
    runs: list[dict[str, Any]] = []
    symbiosis = SymbiosisSettings(parts=2, slowed_most=0.0)
    with (
        tempfile.TemporaryDirectory(prefix="cosched-f-") as folder,
        domain_on_halves(
            Path(folder) / "run",
            plan_nodes(1, 2, life.usable_siblings()),
            QueueSettings(),
            symbiosis,
        ) as lab,
        Client.connect(lab.run_dir, lab.nodes[0].name) as client,
        counted_steps("runs", options.repeat * len(found) * len(beside)) as advance,
    ):
        node = Node(client, mpi, found, Path(folder))
        for _ in range(options.repeat):
            for name in found:
                for other in beside:
                    rates = node.run(name, other)
                    runs.append({"program": name, "beside": other, "rates": dict(rates)})
                    advance()
        return {"mpi": mpi.title, "runs": runs, "findings": findings(lab)}


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
    bench.run(run, words)


if __name__ == "__main__":
    main()
