"""How soon the usual commands answer, as ratios to `python3 -c pass` of their own Python.

The commands take turns, beside a private domain and daemons of this machine that are up,
where one job has ended. Medians of the ratios of one round each, by the clock and by CPU
time, which other load changes less. The commands are those of
an ordinary `pip install`: with an editable one they start later. Any user may run it.

dashboard lasts until the address of the page is printed; --wait until the job has ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.commands import output_of
from benchmarks.experiment import Bench, quartiles
from benchmarks.micro.short_jobs import private_domain
from benchmarks.micro.starting import Took, run_once
from benchmarks.progress_lines import counted_steps
from cosched.core.errors import CoschedError
from cosched.node.lifetime.stop import stop_node
from cosched.rundir.paths import NodePaths
from cosched.tables import table

BASE = "python3 -c pass"
#: The commands, with their words.
COMMANDS = {
    "cosched --version": ("cosched", "--version"),
    "cosched queue": ("cosched", "queue"),
    "cosched submit": ("cosched", "submit", "--output", os.devnull, "true"),
    "cosched submit --wait": ("cosched", "submit", "--wait", "--input", "none", "true"),
    "cosched why 1": ("cosched", "why", "1"),
    "cosched status": ("cosched", "status"),
    "cosched history": ("cosched", "history"),
    "cosched-run --version": ("cosched-run", "--version"),
}
DASHBOARD = "cosched dashboard"


def first_line(words: Sequence[str], environ: Mapping[str, str]) -> Took:
    """Runs a command that goes on until it prints a line; then it is ended."""
    began = time.monotonic()
    with subprocess.Popen(
        words,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        seconds = time.monotonic() - began
        process.terminate()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if not line:
        raise CoschedError(f"{words[0]} printed nothing")
    return Took(seconds, usage.ru_utime + usage.ru_stime)


def _has_data(command: str, options: argparse.Namespace) -> bool:
    """Returns whether a command finds what it shows: only an MPI program has a history."""
    return command != "cosched history" or options.program is not None


def measure(run_dir: Path, options: argparse.Namespace) -> dict[str, list[Took]]:
    """Returns the cost of each command, round by round."""
    environ = {**os.environ, "COSCHED_RUN_DIR": str(run_dir)}
    places = {name: (str(options.bin / name),) for name in ("cosched", "cosched-run")}
    measured = {name: words for name, words in COMMANDS.items() if _has_data(name, options)}
    commands = {name: (*places[words[0]], *words[1:]) for name, words in measured.items()}
    dashboard = (*places["cosched"], "dashboard", "--no-open")
    found: dict[str, list[Took]] = {name: [] for name in (BASE, *measured, DASHBOARD)}
    with (
        private_domain(run_dir),
        counted_steps("rounds", options.repeat + 1) as advance,
    ):
        output_of(commands["cosched submit --wait"], "cosched submit", environ)
        program = options.program
        if program:
            output_of([*places["cosched-run"], "-n", "1", program], program, environ)
        for number in range(options.repeat + 1):
            row = {BASE: run_once((str(options.bin / "python3"), "-c", "pass"), environ)}
            row |= {name: run_once(words, environ) for name, words in commands.items()}
            row[DASHBOARD] = first_line(dashboard, environ)
            for name, took in row.items():
                if number:  # the first round fills caches
                    found[name].append(took)
            advance()
    return found


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the seconds of all rounds, and a table of ratios."""
    with tempfile.TemporaryDirectory(prefix="cosched-s-") as name:
        run_dir = Path(name) / "run"
        try:
            found = measure(run_dir, options)
        finally:
            stop_node(NodePaths(run_dir, os.uname().nodename))
    rows = []
    for name, costs in found.items():
        pairs = list(zip(costs, found[BASE], strict=True))
        wall = quartiles([own.wall_s / base.wall_s for own, base in pairs])
        cpu = quartiles([own.cpu_s / base.cpu_s for own, base in pairs])
        seconds = [quartiles([cost[at] for cost in costs])[1] for at in (0, 1)]
        shown = [
            f"{middle:.1f} ({low:.1f} - {high:.1f})" for low, middle, high in (wall, cpu)
        ]
        rows.append((name, *(f"{1e3 * each:.0f} ms" for each in seconds), *shown))
    head = ("command", "clock", "CPU", "ratio, clock (quartiles)", "ratio, CPU")
    load = f"load {os.getloadavg()[0]:.1f}, {options.repeat} rounds"
    return [load, *table(head, rows, "<>>>>", gap=1)], found


def main() -> None:
    """Runs the benchmark."""
    bench = Bench("prompts", __doc__, "--repeat 9")
    bench.add_repeat(9, "rounds")
    add = bench.add_argument
    usual = Path(sys.executable).parent
    add("--bin", type=Path, default=usual, help="the folder of the commands to measure")
    add(
        "--program",
        help="an MPI program, of which one job runs before; also measures history",
    )
    bench.run(run)


if __name__ == "__main__":
    main()
