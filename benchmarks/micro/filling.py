"""How well the waits of a job are filled by another one, and how soon it goes on.

On two nodes of a lab a job waits for messages: its second rank computes for a while and
then sends one. On the first rank's CPU another job computes. The table has three figures:

filled  the part of the CPU that the computing job gets; at best nearly all
held    the part of the time for which the waiting rank has the CPU
delay   the median time between a message's departure and the end of the wait

The ways alternate:

cosched  the waiting job is scheduled all the time, the other one fills its waits
block    without coscheduling; the waiting rank sleeps between two looks
kernel   without the shim; the waiting rank spins or yields, as its MPI does
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.domain_lab import new_lab
from benchmarks.experiment import Bench, numbers
from benchmarks.mpi import PROGRAMS, build, find
from benchmarks.progress_lines import counted_steps
from cosched.core.errors import CoschedError
from cosched.lab.lab import Lab
from cosched.lab.plan import plan_nodes
from cosched.linux.cpu_surroundings import usable_siblings
from cosched.tables import table

WAYS = {
    "cosched": (),
    "block": ("--waits-only", "--wait", "block"),
    "kernel": ("--no-shim",),
}
BIN = Path(sys.executable).parent
#: The waiting job keeps its CPUs for this time.
SLICE = "1000s"
SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Filled:
    """Holds one run."""

    way: str  #: how the jobs shared the CPU
    gap_us: int  #: the time between two messages, in microseconds
    delay_us: float  #: median time from a message's departure to the end of its wait
    filled: float  #: part of a CPU that the filling job had
    held: float  #: part of a CPU that the waiting rank had


class Runner:
    """Runs both jobs on a lab."""

    def __init__(self, lab: Lab, program: Path, mpi: str) -> None:
        self._hosts = [node.name for node in lab.nodes]
        self._run = (str(BIN / "cosched-run"), "--run-dir", str(lab.run_dir), "--mpi", mpi)
        self._program = str(program)

    def run(self, way: str, gap_us: int) -> Filled:
        """Returns how one job filled the waits of the other one."""
        count = max(1, int(SECONDS * 1e6 / gap_us))
        waiting = self._start(way, self._hosts, "wait", str(gap_us), str(count))
        filling = self._start(way, self._hosts[:1], "fill")
        try:
            assert filling.stdout is not None
            if filling.stdout.readline() != "begins\n":
                raise CoschedError(f"{way}: the filling job did not begin")
            delay_us, held = map(float, _end(waiting, way).split())
        finally:
            filling.send_signal(signal.SIGTERM)
            waiting.kill()
        return Filled(way, gap_us, delay_us, float(_end(filling, way)), held)

    def _start(self, way: str, hosts: Sequence[str], *words: str) -> subprocess.Popen[str]:
        spread = ("--hosts", ",".join(hosts), "-n", str(len(hosts)))
        return subprocess.Popen(
            [*self._run, *WAYS[way], *spread, self._program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )


def _end(job: subprocess.Popen[str], way: str) -> str:
    """Returns what a job prints until its end."""
    text = job.communicate()[0]
    if not text.strip():
        raise CoschedError(f"{way}: a job ended with status {job.returncode}")
    return text


def measure(run_dir: Path, options: argparse.Namespace) -> list[Filled]:
    """Returns all runs."""
    mpi = find(options.mpi)
    program = build(PROGRAMS / "waits.c", mpi)
    total = options.repeat * len(options.gaps) * len(WAYS)
    found = []
    with (
        new_lab(run_dir, plan_nodes(2, 1, usable_siblings())) as lab,
        counted_steps("runs", total) as advance,
    ):
        for node in lab.nodes:
            words = [*lab.enter_argv(node.name), str(BIN / "cosched"), "config", "set"]
            environ = {**os.environ, "COSCHED_RUN_DIR": str(run_dir)}
            output_of([*words, f"slice={SLICE}"], "cosched config set", environ)
        runner = Runner(lab, program, str(mpi.mpiexec))
        for _ in range(options.repeat):
            for gap_us in options.gaps:
                for way in WAYS:
                    found.append(runner.run(way, gap_us))
                    advance()
    return found


def text(runs: Sequence[Filled]) -> list[str]:
    """Returns the lines of the table: medians of each way and length of waits."""
    rows = []
    for gap_us in sorted({run.gap_us for run in runs}):
        for way in WAYS:
            own = [run for run in runs if (run.way, run.gap_us) == (way, gap_us)]
            filled, held, delay_us = (
                statistics.median(getattr(run, name) for run in own)
                for name in ("filled", "held", "delay_us")
            )
            spread = sorted(run.filled for run in own)
            rows.append(
                (
                    f"{gap_us} us",
                    way,
                    f"{filled:.0%} ({spread[0]:.0%} - {spread[-1]:.0%})",
                    f"{held:.0%}",
                    f"{delay_us:.0f} us",
                )
            )
    head = ("waits", "way", "filled (least - most)", "held", "delay")
    return table(head, rows, "><>>>")


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns all runs, and a table of them."""
    with tempfile.TemporaryDirectory(prefix="cosched-f-") as folder:
        runs = measure(Path(folder) / "run", options)
    return text(runs), runs


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("filling", __doc__, "--gaps 300,3000 --repeat 5")
    add = bench.add_argument
    add("--gaps", type=numbers, default=[300, 3000], help="in microseconds (300,3000)")
    add("--mpi", default="mpich", help="mpich, openmpi or a path (mpich)")
    bench.add_repeat(3, "runs of each way")
    bench.run(run)


if __name__ == "__main__":
    main()
