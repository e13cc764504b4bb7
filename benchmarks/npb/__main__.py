"""``python -m benchmarks.npb``: runs one benchmark, under any launcher of MPI programs."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from benchmarks.npb.classes import NAMES
from benchmarks.npb.graphs import GRAPHS
from cosched.core.errors import CoschedError

#: Each benchmark and its module; ``is`` is a word of the language.
MODULES = {
    "ep": "ep",
    "is": "is_",
    "cg": "cg",
    "mg": "mg",
    "ft": "ft",
    "lu": "fluid.lu",
    "sp": "fluid.sp",
    "bt": "fluid.bt",
    "btio": "fluid.btio",
    "dt": "dt",
}
#: How btio writes: a name for each of ``fluid.solution_file.WAYS``, which needs MPI.
WAYS = ("epio", "simple", "full")
#: Options that one benchmark has, with their defaults.
OWN_OPTIONS: dict[str, dict[str, Any]] = {
    "btio": {"io": "full", "folder": Path()},
    "dt": {"graph": "SH"},
}

EPILOG = """\
exit status: 0 when the result is as published, 1 when not, 2 when it cannot run

btio is BT that writes its solution every 5 steps, and checks what it reads
back. --io says how:
  epio    each rank writes a file of its own
  simple  each rank writes each line of points into one file by a call of its own
  full    all ranks write one file by one collective call of MPI-IO
Its files have mode 0600; it removes them at the end.

dt sends data along the arcs of a graph: BH (black hole, four streams become
one), WH (white hole, the reverse) or SH (shuffle). A rank has several nodes of
the graph if there are more nodes than ranks.

examples:
  mpiexec -n 2 python -m benchmarks.npb lu --class W
  cosched-run --hosts lab1,lab2 -n 2 python -m benchmarks.npb cg --class A
  mpiexec -n 4 python -m benchmarks.npb ft --class S --json
  mpiexec -n 4 python -m benchmarks.npb btio --io simple --folder /scratch
  mpiexec -n 4 python -m benchmarks.npb dt --graph WH --class W
"""


def main() -> int:
    """Runs what the command line names; rank 0 reports. The exit status."""
    options = _parse()
    name, own = options.benchmark, _own_options(options)
    # NumPy's linear algebra, of which there is none here, would start a thread for each
    # CPU; they spin for a while, a tenth of a second, on CPUs that are other ranks'.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from benchmarks.npb.kernels import load

    try:
        # Before MPI starts: some libraries do not like a process that forks later.
        kernels = load(name)
    except CoschedError as error:
        print(f"npb: {error}", file=sys.stderr)
        return 2
    from mpi4py import MPI

    from benchmarks.npb.link import Link
    from benchmarks.npb.report import Run, as_json, as_text

    link = Link(MPI.COMM_WORLD)
    benchmark = importlib.import_module(f"benchmarks.npb.{MODULES[name]}")
    try:
        outcome = benchmark.run(link, kernels, options.problem, *own.values())
    except CoschedError as error:
        if link.rank == 0:
            print(f"npb: {error}", file=sys.stderr)
        return 2
    variant = [value for key, value in own.items() if key != "folder"]
    full_name = " ".join([name, *variant])
    run = Run(full_name, options.problem, link.ranks, outcome, link.traffic())
    if link.rank == 0:
        print(json.dumps(as_json(run)) if options.json else as_text(run), flush=True)
    return 0 if link.agree(outcome.verified) else 1


def _own_options(options: argparse.Namespace) -> dict[str, Any]:
    """Returns the options that only this benchmark has, with their values."""
    given = vars(options)
    return {
        key: default if given[key] is None else given[key]
        for key, default in OWN_OPTIONS.get(options.benchmark, {}).items()
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.npb",
        description="A NAS Parallel Benchmark, its result checked against NASA's.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("benchmark", choices=MODULES, help="which one")
    parser.add_argument(
        "--class",
        dest="problem",
        choices=NAMES,
        type=str.upper,
        default="S",
        help="size of the problem, small to large (default: S)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, not text")
    parser.add_argument("--io", choices=WAYS, help="how btio writes (default: full)")
    parser.add_argument(
        "--folder", type=Path, metavar="DIR", help="of btio's files (default: this one)"
    )
    parser.add_argument(
        "--graph", choices=GRAPHS, type=str.upper, help="the graph of dt (default: SH)"
    )
    options = parser.parse_args()
    for name, own in OWN_OPTIONS.items():
        for key in own:
            if name != options.benchmark and getattr(options, key) is not None:
                parser.error(f"--{key} is an option of {name} alone")
    return options


sys.exit(main())
