"""Splits the start of a job by cosched-run into its parts.

The ways alternate: the user's own launcher alone, by cosched-run without its shim, by
cosched-run beside daemons that are up, and by cosched-run that starts private daemons. Two
ways run beside a job that computes on each CPU: the launcher alone, and by cosched-run.
Each starts `hostname`, or PROGRAM, and lasts from the command to its end. The medians, the
difference to the launcher alone in the same round, and the CPU time of the command and of
all that it waits for are printed. --version shows the least that a command costs.

Then the parts of a start beside running daemons: the command runs with a clock around some
of its functions. The clock itself adds a few milliseconds, mostly since it is imported.

All answers that cosched keeps are there before the first round: one start of each way is
not counted. Measure on an idle machine: with one CPU busy the figures double.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.experiment import Bench
from benchmarks.micro.load import child, new_node, spin
from benchmarks.mpi import find
from cosched.core.errors import CoschedError
from cosched.core.node.settings import USUAL
from cosched.node.lifetime.start import NodeOptions
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.paths import NodePaths
from cosched.tables import table

MS = 1000.0
#: The age of the running job.
BUSY_S = 1.0
#: Names of parts, and the functions that are their work.
PARTS = {
    "options": ("cosched.cli.run.plain", "read_plain"),
    "choices": ("cosched.cli.run.choices", "Asked.choices"),
    "plan": ("cosched.cli.run.start", "_resolve"),
    "variables": ("cosched.cli.run.start", "Start.task_environment"),
    "daemons": ("cosched.cli.run.start", "lease_here"),
    "launcher": ("cosched.cli.run.start", "run_launcher"),
    "record": ("cosched.jobs.expected", "Lengths.add"),
}
#: Runs a command with a clock around its parts. argv: the file of the result, the parts,
#: the words of the command. CLOCK_MONOTONIC is the same in all processes.
CLOCK = """
import time
began = time.monotonic()
import sys
out, parts, *words = sys.argv[1:]
found = {}
def timed(name, function):
    def call(*values, **named):
        at = time.monotonic()
        try:
            return function(*values, **named)
        finally:
            found[name] = time.monotonic() - at
    return call
import cosched.cli.run.main as main, cosched.cli.run.plain, cosched.cli.run.start
found["imports"] = time.monotonic() - began
import json
for name, (module, path) in json.loads(parts).items():
    place = sys.modules[module]
    *above, last = path.split(".")
    for each in above:
        place = getattr(place, each)
    setattr(place, last, timed(name, getattr(place, last)))
sys.argv = ["cosched-run", *words]
try:
    main.main()
finally:
    with open(out, "w") as file:
        json.dump({"began": began, "ended": time.monotonic(), **found}, file)
"""


class Took(NamedTuple):
    """The cost of one command."""

    wall_s: float  #: from its start to its end
    cpu_s: float  #: its CPU time, with the children that it waited for


def run_once(words: Sequence[str], environ: Mapping[str, str]) -> Took:
    """Runs a command that must succeed. Raises CoschedError."""
    began = time.monotonic()
    process = subprocess.Popen(
        words,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    complaint = process.stderr.read().decode(errors="replace").strip()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    took = Took(time.monotonic() - began, usage.ru_utime + usage.ru_stime)
    if process.returncode != 0:
        raise CoschedError(f"{words[0]} failed: {complaint.splitlines()[-1:]}")
    return took


class Ways:
    """The ways to start a job. bin: the folder of the commands. line: the user's launcher
    with its words. folder: a place for files. up: the run directory of daemons."""

    def __init__(self, bin: Path, line: Sequence[str], folder: Path, up: Path) -> None:
        self.run = str(bin / "cosched-run")
        self._line = list(line)
        self._up = up
        self.python = str(bin / "python3")
        self._first = NodePaths(folder / "first", os.uname().nodename)
        usual = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
        self.environ = {**usual, "COSCHED_RUNS": str(folder / "runs.jsonl")}

    def alone(self) -> Took:
        """The user's launcher."""
        return run_once(self._line, self.environ)

    def version(self) -> Took:
        """``cosched-run --version``."""
        return run_once([self.run, "--version"], self.environ)

    def no_shim(self) -> Took:
        """By cosched-run, which adds nothing to the ranks."""
        return run_once([self.run, "--no-shim", *self._line], self.environ)

    def daemons_up(self) -> Took:
        """By cosched-run, beside daemons that are up."""
        return run_once(self._words(self._up), self.environ)

    def first(self) -> Took:
        """By cosched-run, which starts private daemons; they are stopped afterwards."""
        try:
            return run_once(self._words(self._first.run_dir), self.environ)
        finally:
            stop_node(self._first)

    def alone_beside_a_job(self) -> Took:
        """The user's launcher, beside a job that computes."""
        with _busy(self._up):
            return self.alone()

    def beside_a_job(self) -> Took:
        """By cosched-run, beside a job that computes."""
        with _busy(self._up):
            return self.daemons_up()

    def parts(self, out: Path) -> dict[str, float]:
        """Returns the seconds of each part of a start beside daemons that are up."""
        words = [self.python, "-I", "-X", "utf8", "-c", CLOCK, str(out), json.dumps(PARTS)]
        before = time.monotonic()
        run_once([*words, *self._words(self._up)[1:]], self.environ)
        after = time.monotonic()
        found: dict[str, float] = json.loads(out.read_text())
        began, ended = found.pop("began"), found.pop("ended")
        return {"python": began - before, **found, "exit": after - ended}

    def _words(self, run_dir: Path) -> list[str]:
        return [self.run, "--run-dir", str(run_dir), "--", *self._line]


@contextmanager
def _busy(run_dir: Path) -> Iterator[None]:
    """Runs a job with a task on each CPU, which is older than a newcomer."""
    paths = NodePaths(run_dir, os.uname().nodename)
    with ExitStack() as tasks:
        for cpu in os.sched_getaffinity(0):
            tasks.enter_context(child(spin, paths, "busy", cpu))
        time.sleep(BUSY_S)
        yield


def measure(
    ways: Mapping[str, Callable[[], Took]], repeat: int
) -> dict[str, dict[str, float]]:
    """Returns medians in milliseconds of each way; the first one is what the others are
    compared with in each round."""
    found: dict[str, list[Took]] = {name: [] for name in ways}
    for number in range(repeat + 1):
        for name, start in ways.items():
            took = start()
            if number:  # the first start fills caches
                found[name].append(took)
    base = next(iter(found.values()))
    return {
        name: {
            "wall_ms": MS * statistics.median(each.wall_s for each in took),
            "added_ms": MS
            * statistics.median(
                each.wall_s - alone.wall_s for each, alone in zip(took, base, strict=True)
            ),
            "cpu_ms": MS * statistics.median(each.cpu_s for each in took),
        }
        for name, took in found.items()
    }


def _parts(ways: Ways, folder: Path, repeat: int) -> dict[str, float]:
    found = [ways.parts(folder / "parts") for _ in range(repeat + 1)][1:]
    return {name: MS * statistics.median(each[name] for each in found) for name in found[0]}


def _run(options: argparse.Namespace, found: dict[str, object]) -> Iterator[str]:
    mpi = find(options.mpi)
    line = [str(mpi.mpiexec), *options.words.split(), *options.program.split()]
    with tempfile.TemporaryDirectory(prefix="cosched-start-") as name:
        folder = Path(name)
        with new_node(NodeOptions(USUAL)) as node:
            ways = Ways(options.bin.absolute(), line, folder, node.run_dir)
            rows = measure(
                {
                    "the launcher alone": ways.alone,
                    "cosched-run --version": ways.version,
                    "cosched-run --no-shim": ways.no_shim,
                    "daemons up": ways.daemons_up,
                    "first start": ways.first,
                    "the launcher, beside a job": ways.alone_beside_a_job,
                    "daemons up, beside a job": ways.beside_a_job,
                },
                options.repeat,
            )
            parts = _parts(ways, folder, options.repeat)
    found |= {"mpi": f"{mpi.title} {mpi.version}", "ways": rows, "parts": parts}
    yield f"{mpi.title} {mpi.version}: {' '.join(line[1:])}; medians of {options.repeat}"
    cells = [(way, *(f"{row[key]:.1f}" for key in row)) for way, row in rows.items()]
    yield from table(("way", "ms", "added", "CPU ms"), cells, "<>>>")
    yield "parts of a start beside running daemons"
    yield from table(
        ("part", "ms"), [(part, f"{ms:.1f}") for part, ms in parts.items()], "<>"
    )


def run(options: argparse.Namespace) -> tuple[Iterator[str], object]:
    """Returns the lines, and the figures."""
    found: dict[str, object] = {}
    return _run(options, found), found


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("starting", __doc__, "--repeat 15 --mpi openmpi")
    bench.add_repeat(15, "starts of each way")
    add = bench.add_argument
    add("--mpi", default="mpich", help="mpich, openmpi or an mpiexec (mpich)")
    add("--words", default="-n 2", help="the launcher's words before the program (-n 2)")
    add("--program", default="hostname", help="the program and its words (hostname)")
    usual = Path(sys.executable).parent
    add("--bin", type=Path, default=usual, help="the folder of the commands to measure")
    bench.run(run)


if __name__ == "__main__":
    main()
