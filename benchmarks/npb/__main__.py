"""``python -m benchmarks.npb``: runs one benchmark, under any launcher of MPI programs."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys

from benchmarks.npb.classes import NAMES
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
}

EPILOG = """\
exit status: 0 when the result is as published, 1 when not, 2 when it cannot run

examples:
  mpiexec -n 2 python -m benchmarks.npb lu --class W
  cosched-run --hosts lab1,lab2 -n 2 python -m benchmarks.npb cg --class A
  mpiexec -n 4 python -m benchmarks.npb ft --class S --json
"""


def main() -> int:
    """Runs what the command line names; rank 0 reports. The exit status."""
    options = _parser().parse_args()
    name = options.benchmark
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
        outcome = benchmark.run(link, kernels, options.problem)
    except CoschedError as error:
        if link.rank == 0:
            print(f"npb: {error}", file=sys.stderr)
        return 2
    run = Run(name, options.problem, link.ranks, outcome, link.traffic())
    if link.rank == 0:
        print(json.dumps(as_json(run)) if options.json else as_text(run), flush=True)
    return 0 if link.agree(outcome.verified) else 1


def _parser() -> argparse.ArgumentParser:
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
    return parser


sys.exit(main())
