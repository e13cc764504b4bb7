"""Measures what looking at jobs that share a node costs these jobs.

Two jobs of one rank run on a CPU each. In one run both have labels: the node reads their
counters, and lets one rest now and then to see the other one alone. In the next run they
have none, and nothing looks at them. All else is equal: daemons, shim and program, which
counts rounds of equal work. A ratio compares two successive runs, so
that slow changes of the machine cancel out; the order differs from pair to pair. The first
looks come soon, so a short job pays a larger part.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.experiment import Bench, above_zero, need_cpus, positive, quartiles
from benchmarks.micro.load import new_node
from benchmarks.mpi import PROGRAMS, WITH_MARK, build, find
from benchmarks.progress_lines import steps_of
from cosched.core.errors import CoschedError
from cosched.core.node.settings import Settings
from cosched.launch.family import Mpi
from cosched.node.lifetime.start import NodeOptions
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths

LABEL = "COSCHED_LIMITED_BY"
#: How long a job may take to start and to end.
PATIENCE_S = 60.0


def run_jobs(
    paths: NodePaths, mpi: Mpi, program: Path, seconds: float, label: str
) -> float:
    """Returns the rounds a second of two jobs on a CPU each. label: of both; empty: no
    label."""
    environ = {name: value for name, value in os.environ.items() if name != LABEL}
    if label:
        environ[LABEL] = label
    jobs = [
        subprocess.Popen(
            [
                *("taskset", "-c", str(cpu), sys.executable, "-m", "cosched.cli.run.main"),
                *("--run-dir", str(paths.run_dir), "--mpi", str(mpi.mpiexec), "-n", "1"),
                *("--job", f"on{cpu}", str(program), str(seconds)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environ,
        )
        for cpu in sorted(os.sched_getaffinity(0))[:2]
    ]
    try:
        return sum(_rate(job, seconds + PATIENCE_S) for job in jobs)
    finally:
        for job in jobs:
            job.kill()
            job.wait()


def _rate(job: subprocess.Popen[str], within_s: float) -> float:
    out, error = job.communicate(timeout=within_s)
    words = out.split()
    if job.returncode != 0 or words[::2] != ["rounds", "seconds"]:
        last = error.strip().splitlines()[-1:] or [f"status {job.returncode}"]
        raise CoschedError(f"a job failed: {last[0]}")
    return float(words[1]) / float(words[3])


def looks_of(paths: NodePaths) -> int:
    """Returns how often jobs have rested until now."""
    counters: Mapping[str, int] = request(paths, "status")["counters"]
    return counters.get("rest_began", 0)


def measure(mpi: Mpi, program: Path, pairs: int, seconds: float) -> tuple[list[float], int]:
    """Returns the ratio of each pair of runs, looked at / not, and how often jobs rested.
    Raises CoschedError if nothing looked at jobs with labels, or if it did at others."""
    ratios = []
    # A job that gives way would cost more than looks do.
    with new_node(NodeOptions(Settings(), slowed_most="off")) as paths:
        for number in steps_of(range(pairs), "pairs"):
            found = {}
            for watched in (number % 2 == 0, number % 2 == 1):
                before = looks_of(paths)
                label = "cpu" if watched else ""
                found[watched] = run_jobs(paths, mpi, program, seconds, label)
                if (looks_of(paths) > before) is not watched:
                    raise CoschedError(f"jobs with the label '{label}': wrong looks")
            ratios.append(found[True] / found[False])
        return ratios, looks_of(paths)


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the ratios, and a text of their median."""
    need_cpus(2)
    mpi = find(options.mpi)
    program = build(PROGRAMS / "rounds.c", mpi, WITH_MARK)
    ratios, rested = measure(mpi, program, options.pairs, options.seconds)
    family = f"{mpi.family.title} {mpi.version}"
    low, middle, high = quartiles(ratios)
    lines = [
        f"{family}: looked at / not {middle:.4f} of the rounds a second",
        f"quartiles {low:.4f} to {high:.4f} of {len(ratios)} pairs, {rested} rests",
    ]
    figures = {"family": family, "ratio": middle, "ratios": sorted(ratios)}
    return lines, {**figures, "seconds": options.seconds, "rests": rested}


def main(words: Sequence[str] | None = None) -> None:
    bench = Bench("looking", __doc__, "--pairs 10 --seconds 60")
    add = bench.add_argument
    add("--mpi", help="an mpiexec or the folder of one")
    add("--pairs", type=positive, default=10, help="(default 10)")
    add("--seconds", type=above_zero, default=60.0, help="of a run (default 60)")
    bench.run(run, words)


if __name__ == "__main__":
    main()
