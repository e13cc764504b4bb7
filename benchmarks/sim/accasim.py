"""EASY on a whole log, here and in AccaSim, side by side in one run.

Each run is a process of its own: it reads the same plain log, simulates EASY, and says
how much CPU time that took, imports left out. The two take turns; medians count, and
their ratio is the result, since times of a shared machine say nothing by themselves.

Two rows: without any output, which for AccaSim is its fastest way and for us leaves the
schedule in memory; and with the schedule written to disk (ours as npz and CSV).

AccaSim 1.1.3 (PyPI) needs two things put in order: ``collections.Mapping``, which Python
3.10 removed, and a memory request in every line, which most logs lack. It treats a
reservation differently from the definition of EASY: once its time has come, later jobs
start as if there were none. So the two schedules differ, and both mean waits are printed.

AccaSim gets an environment of its own, made for the run with pip, unless ``--accasim``
names the python of one that has it.
"""

from __future__ import annotations

import argparse
import collections
import collections.abc
import gzip
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.commands import output_of
from cosched.core.errors import CoschedError

ACCASIM = "accasim==1.1.3"
ROOT = Path(__file__).parents[2]
HEARD = "exec_after_completion"
SIDES = ("cosched", "accasim")
#: The first word of a child; then the side, the log, the machine's size, what is written.
CHILD = "--child"


def tidy(trace: Path, plain: Path) -> tuple[int, int]:
    """Writes the log's jobs that have a size, each with a memory request of 1.

    Returns how many, and the machine's size.
    """
    jobs, machine = 0, 0
    raw = trace.read_bytes()
    text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("latin-1")
    with plain.open("w", encoding="latin-1") as stream:
        for line in text.splitlines():
            if line.startswith(";"):
                if "MaxProcs:" in line:
                    machine = int(line.split(":")[1].split()[0])
                stream.write(line + "\n")
                continue
            fields = line.split()
            if fields[7] == "-1":
                fields[7] = fields[4]
            if int(fields[7]) < 1 or int(fields[3]) < 0:
                continue
            fields[5] = fields[6] = "-1"
            fields[9] = "1"
            stream.write(" ".join(fields) + "\n")
            jobs += 1
    return jobs, machine


def run_cosched(plain: Path, folder: Path | None) -> dict[str, Any]:
    """One run of ours."""
    from cosched.sim.logs.workload import Estimates
    from cosched.sim.queue.queue_runs import Run, carry_out

    began_s = time.process_time()
    outcome = carry_out(Run(plain, "easy", Estimates.LOG, save_in=folder))
    return {
        "cpu_s": time.process_time() - began_s,
        "jobs": outcome.figures["jobs"],
        "mean_wait_s": outcome.figures["mean_wait_s"],
    }


def run_accasim(plain: Path, folder: Path | None, machine: int) -> dict[str, Any]:
    """One run of AccaSim, on a machine of one-core nodes."""
    collections.Mapping = collections.abc.Mapping  # type: ignore[attr-defined]
    from accasim.base.additional_data import AdditionalData
    from accasim.base.allocator_class import FirstFit
    from accasim.base.scheduler_class import EASYBackfilling
    from accasim.base.simulator_class import Simulator

    waits: list[float] = []

    def ignore(self: object, *_: object) -> None:
        """AccaSim asks at many points; one is enough here."""

    def completed(self: object, ended: list[Any]) -> None:
        waits.extend(job.start_time - job.queued_time for job in ended)

    body = dict.fromkeys(AdditionalData.__abstractmethods__, ignore)
    waits_class = type("Waits", (AdditionalData,), {**body, HEARD: completed})

    with tempfile.TemporaryDirectory() as scratch:
        system = Path(scratch) / "system.json"
        system.write_text(
            json.dumps(
                {
                    "groups": {"node": {"core": 1, "mem": 1}},
                    "resources": {"node": machine},
                    "start_time": 0,
                    "equivalence": {"processor": {"core": 1}},
                }
            )
        )
        began_s = time.process_time()
        Simulator(
            str(plain),
            str(system),
            EASYBackfilling(FirstFit()),
            additional_data=[waits_class],
            scheduling_output=folder is not None,
            statistics_output=False,
            show_statistics=False,
            RESULTS_FOLDER_PATH=str(folder or scratch),
            LOG_LEVEL="ERROR",
        ).start_simulation()
        cpu_s = time.process_time() - began_s
    return {"cpu_s": cpu_s, "jobs": len(waits), "mean_wait_s": statistics.fmean(waits)}


def python_with_accasim(folder: Path) -> str:
    """Makes an environment with AccaSim; returns its python. Raises CoschedError if that
    fails."""
    python = str(folder / "bin" / "python")
    try:
        output_of([sys.executable, "-m", "venv", str(folder)], "python -m venv")
        output_of([python, "-m", "pip", "install", "--quiet", ACCASIM], "pip install")
    except CoschedError as error:
        raise CoschedError(
            f"{ACCASIM}: {error}; name a python that has it with --accasim"
        ) from None
    return python


def run_child(
    python: str, side: str, plain: Path, machine: int, write: bool
) -> dict[str, Any]:
    """One run in a process of its own."""
    words = [python, "-m", "benchmarks.sim.accasim", CHILD, side, str(plain)]
    words += [str(machine), "write" if write else "none"]
    output = output_of(words, f"a run of {side}", {**os.environ, "PYTHONPATH": str(ROOT)})
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def child(side: str, plain: Path, machine: int, write: bool) -> None:
    """Runs in a child process; the last line of its output is the result."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) if write else None
        if side == "cosched":
            found = run_cosched(plain, folder)
        else:
            found = run_accasim(plain, folder, machine)
    found["peak_kb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps(found))


def compare(trace: Path, repeats: int, accasim: str | None) -> list[dict[str, Any]]:
    """The two rows: medians of each side, and the ratio."""
    from benchmarks.progress_lines import counted_steps  # AccaSim's environment lacks rich

    rows = []
    with (
        tempfile.TemporaryDirectory() as scratch,
        counted_steps("runs", 4 * repeats) as advance,
    ):
        plain = Path(scratch) / "log.swf"
        _, machine = tidy(trace, plain)
        pythons = {
            "cosched": sys.executable,
            "accasim": accasim or python_with_accasim(Path(scratch) / "venv"),
        }
        for write in (False, True):
            found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
            for _ in range(repeats):
                for side in SIDES:
                    found[side].append(
                        run_child(pythons[side], side, plain, machine, write)
                    )
                    advance()
            ratios = [
                theirs["cpu_s"] / ours["cpu_s"]
                for ours, theirs in zip(*found.values(), strict=True)
            ]
            rows.append(
                {
                    "output": "written" if write else "none",
                    "ratio": statistics.median(ratios),
                    "ratios": ratios,
                    **{side: _medians(runs) for side, runs in found.items()},
                }
            )
    return rows


def _medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def run(options: argparse.Namespace) -> tuple[list[str], object]:
    """Returns the rows, and a table of them."""
    from cosched.tables import table

    rows = compare(options.trace, options.repeat, options.accasim)
    head = ("output", "jobs", "AccaSim / cosched", "(all)", "mean wait")
    cells = [
        (
            *(row["output"], f"{row['cosched']['jobs']:g}", f"{row['ratio']:.1f}"),
            f"({min(row['ratios']):.1f} - {max(row['ratios']):.1f})",
            f"{row['cosched']['mean_wait_s']:.0f} s, AccaSim's "
            f"{row['accasim']['mean_wait_s']:.0f} s",
        )
        for row in rows
    ]
    return table(head, cells, "<>><<"), {"trace": options.trace.name, "rows": rows}


def main() -> None:
    if sys.argv[1:2] == [CHILD]:
        side, plain, machine, what = sys.argv[2:]
        child(side, Path(plain), int(machine), what == "write")
        return
    from benchmarks.experiment import Bench  # AccaSim's environment lacks its imports

    bench = Bench("accasim", __doc__)
    bench.add_argument("trace", type=Path, help="a log: TRACE.swf or TRACE.swf.gz")
    bench.add_repeat(3, "runs of each")
    bench.add_argument("--accasim", metavar="PYTHON", help="a python that has AccaSim")
    bench.run(run)


if __name__ == "__main__":
    main()
