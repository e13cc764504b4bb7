"""``python -m benchmarks.kernels``: node kernels, and a machine's own speedup matrix."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.experiment import above_zero, in_one_line, positive, write_json
from benchmarks.kernels.build import KERNELS, build
from benchmarks.kernels.kernel_processes import KernelSetup
from benchmarks.kernels.machine_fitness import SHARED, described, is_measurable, kept_speeds
from benchmarks.kernels.matrix import Halves, measure, model_of, rate_of
from benchmarks.progress_lines import shown_share
from cosched.core.errors import CoschedError
from cosched.sim.symbiotic.matrix import model_document
from cosched.sim.symbiotic.symbiotic_table import matrix_table

UNITS = {
    "cpu": "pairs of numbers",
    "stream": "bytes",
    "gups": "updates",
    "io": "bytes",
    "network": "round trips",
}
EPILOG = """\
cpu computes in registers; stream needs memory bandwidth; gups waits for
memory; io reads and writes a file; network sends MPI messages. Each checks its
result.

exit status: 0, or 1 if a result is wrong or something is missing

examples:
  python -m benchmarks.kernels run stream --seconds 2
  python -m benchmarks.kernels contention
  python -m benchmarks.kernels matrix --json mine.json
  python -m benchmarks.kernels matrix --halves 0-3/4-7 --json mine.json
  cosched sim symbiosis pairs --model mine.json
"""


def main(words: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(words)
    with in_one_line("kernels"):
        options.do(options)


def run(options: argparse.Namespace) -> None:
    """One kernel on all CPUs that we may use."""
    place = _place(tuple(sorted(os.sched_getaffinity(0))), options)
    with tempfile.TemporaryDirectory(prefix="cosched-kernels-") as folder:
        built = build([options.kernel], Path(folder), options.mpi)
        rate = rate_of(options.kernel, built, place, options.seconds)
    if options.json:
        print(json.dumps({"kernel": options.kernel, "rate": rate, "cpus": place.cpus}))
    else:
        unit = UNITS[options.kernel]
        print(f"{options.kernel}: {rate:.4g} {unit} a second on {len(place.cpus)} CPUs")


def matrix(options: argparse.Namespace) -> None:
    """All kernels beside each other."""
    kernels = _kernels(options.kernels)
    primary, background = parse_halves(options.halves, os.sched_getaffinity(0))
    halves = Halves(_place(primary, options), _place(background, options))
    if options.json is not None and not os.access(options.json.parent, os.W_OK):
        raise CoschedError(f"{options.json}: its folder cannot be written to")
    with tempfile.TemporaryDirectory(prefix="cosched-kernels-") as folder:
        built = build(kernels, Path(folder), options.mpi)
        with shown_share() as show:
            rates = measure(built, kernels, halves, options.seconds, options.repeat, show)
    model = model_of(rates, kernels)
    print(matrix_table(model), end="")
    if options.json is not None:
        document = {
            "command": shlex.join(["python", "-m", "benchmarks.kernels", *sys.argv[1:]]),
            **model_document(model),
            "cpus": {"primary": primary, "background": background},
            "rates": [
                {"primary": one, "background": other, "rates": values}
                for (one, other), values in rates.items()
            ],
        }
        write_json(options.json, document)


def contention(options: argparse.Namespace) -> None:
    """Whether kernels slow each other on this machine."""
    place = _place(tuple(sorted(os.sched_getaffinity(0))), options)
    with tempfile.TemporaryDirectory(prefix="cosched-kernels-") as folder:
        built = build(list(SHARED), Path(folder), options.mpi)
        kept = kept_speeds(built, place, options.seconds, options.repeat)
    if options.json:
        print(json.dumps({"kept": kept, "measurable": is_measurable(kept)}))
    else:
        print("\n".join(described(kept, place.cpus)))


def parse_halves(
    text: str | None, allowed: set[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The CPUs of the two halves; by default the lower ones and the higher ones."""
    if text is None:
        cpus = sorted(allowed)
        middle = len(cpus) // 2
        if not middle:
            raise CoschedError("one CPU has no halves; this needs two or more")
        return tuple(cpus[:middle]), tuple(cpus[middle : 2 * middle])
    parts = [_parse_cpus(part, text) for part in text.split("/")]
    if len(parts) != 2 or len(parts[0]) != len(parts[1]) or set(parts[0]) & set(parts[1]):
        raise CoschedError(f"--halves '{text}': want two of equal size, like 0-3/4-7")
    for cpu in (*parts[0], *parts[1]):
        if cpu not in allowed:
            raise CoschedError(f"--halves '{text}': CPU {cpu} is not one we may use")
    return parts[0], parts[1]


def _parse_cpus(part: str, text: str) -> tuple[int, ...]:
    cpus: list[int] = []
    for word in part.split(","):
        match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", word)
        if match is None:
            raise CoschedError(f"--halves '{text}': write CPUs like 0-3/4-7 or 0,2/1,3")
        first = int(match[1])
        cpus += range(first, int(match[2] or first) + 1)
    if not cpus or len(set(cpus)) != len(cpus):
        raise CoschedError(f"--halves '{text}': each half wants CPUs, each once")
    return tuple(cpus)


def _kernels(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in KERNELS:
            raise CoschedError(f"--kernels: '{name}' is none of {', '.join(KERNELS)}")
    return list(dict.fromkeys(names))


def _place(cpus: tuple[int, ...], options: argparse.Namespace) -> KernelSetup:
    return KernelSetup(cpus, options.size << 20, options.folder.resolve())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels",
        description="Node kernels: what each needs of a node, and how they share one.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="run|matrix|contention")
    one = commands.add_parser("run", help="one kernel, on all CPUs")
    one.add_argument("kernel", choices=KERNELS)
    one.add_argument("--json", action="store_true", help="print JSON")
    one.set_defaults(do=run)
    all_of = commands.add_parser("matrix", help="each beside each, on halves of a node")
    all_of.add_argument(
        "--kernels", default=",".join(KERNELS), metavar="A,B", help="which (default: all)"
    )
    all_of.add_argument("--halves", metavar="CPUS/CPUS", help="like 0-3/4-7")
    all_of.add_argument("--repeat", type=positive, default=3, help="rounds (default 3)")
    all_of.add_argument("--json", type=Path, metavar="FILE", help="a model for cosched sim")
    all_of.set_defaults(do=matrix)
    whether = commands.add_parser(
        "contention", help="whether kernels slow each other on this machine"
    )
    whether.add_argument("--json", action="store_true", help="print JSON")
    whether.add_argument("--repeat", type=positive, default=3, help="rounds (default 3)")
    whether.set_defaults(do=contention)
    for command in (one, all_of, whether):
        command.add_argument(
            "--seconds", type=above_zero, default=3.0, help="of each run (default 3)"
        )
        command.add_argument(
            "--size", type=positive, default=256, metavar="MIB",
            help="memory or file of a process; more than caches hold (default 256)",
        )  # fmt: skip
        command.add_argument(
            "--folder", type=Path, default=Path(), help="where the I/O kernel has its file"
        )
        command.add_argument("--mpi", help="mpich, openmpi or a path, for network")
    return parser


if __name__ == "__main__":
    main()
