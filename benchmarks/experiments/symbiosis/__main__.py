"""Symbiotic space-sharing: the figures and tables of Weinberg and Snavely (ICS 2006).

Measured here, with the node kernels and two NAS benchmarks:
  fig1 fig2 fig3 fig4   slowdown of EP, I/O Bench, STREAM and GUPS as more of them share a
                        node, beside each other
  table1                speedup of each kernel, of BTIO and of DT with a free other half of
                        its node
  table2                their speedups beside each other; --model of cosched sim

Computed:
  table3 table4         users' labels, and the speedups of six applications: section 3.3
  stream                the 100-job stream of section 2.4 under each placement
  learner               a scheduler that experiments, and how far its estimates are off
  log                   a log (--log TRACE) against EASY without sharing

Each part is written as symbiosis_PART.json, .txt, .png and .svg. Each measured
number is kept in symbiosis_samples.jsonl, so an interrupted command can continue.
--docs rewrites a page's section by all parts that --out holds, and copies their pictures:
the section symbiosis, or with --node emulated the section symbiosis-emulated.

examples:
  scripts/dev bench symbiosis table4 learner --out out
  scripts/dev bench symbiosis fig3 fig4 --seconds 1 --repeat 3 --out out
  scripts/dev bench symbiosis fig1 fig2 fig3 fig4 table1 --node auto --out out
  scripts/dev bench symbiosis all --log KTH.swf.gz --out out
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.experiment import (
    Bench,
    above_zero,
    in_one_line,
    positive,
    write_figure,
)
from benchmarks.experiments.section import check, rewrite
from benchmarks.experiments.stored import keep
from benchmarks.experiments.symbiosis import computed
from benchmarks.experiments.symbiosis.cells import (
    Cell,
    Rates,
    Samples,
    Setting,
    carry_out,
    measure,
)
from benchmarks.experiments.symbiosis.claims import CLAIMS, claims
from benchmarks.experiments.symbiosis.measured import (
    FIGURES,
    figure,
    figure_cells,
    table1,
    table2,
    table_cells,
)
from benchmarks.experiments.symbiosis.pictures import draw
from benchmarks.experiments.symbiosis.report import (
    ON_EMULATED_NODE,
    ON_MACHINE,
    PagePart,
)
from benchmarks.kernels.build import PROGRAMS, build
from benchmarks.kernels.emulated import EmulatedNode
from benchmarks.kernels.kernel_processes import KernelSetup
from benchmarks.kernels.machine_fitness import SHARED, described, is_measurable, kept_speeds
from benchmarks.progress_lines import shown_share
from cosched.core.errors import CoschedError
from cosched.documents import read_json
from cosched.sim.symbiotic.datastar import DATASTAR, NPB

Document = dict[str, Any]

PARTS = tuple(CLAIMS)
MEASURED = (*FIGURES, "table1", "table2")
EVERYTHING = "all"
#: Which memory and disk the kernels share.
AUTO, REAL, EMULATED = NODES = ("auto", "real", "emulated")
#: The data of a process on an emulated node, in bytes: so its rounds last some 20 ms.
EMULATED_SIZE = 3 << 20
#: How often each kernel is measured to choose the node.
CONTENTION_ROUNDS = 3


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    bench = Bench("symbiosis", __doc__)
    add = bench.add_argument
    add("parts", nargs="+", choices=(*PARTS, EVERYTHING), metavar="PART")
    bench.add_folder()
    bench.add_page()
    add("--log", type=Path, metavar="TRACE", help="in SWF, for log")
    add("--seeds", type=positive, default=3, help="of log's labels (default 3)")
    add("--streams", type=positive, default=100, help="of stream (default 100)")
    bench.add_repeat(5, "rounds measured")
    add("--seconds", type=above_zero, default=2.0, help="of each measured run (default 2)")
    size = "memory or file of a process; more than caches hold (default 256)"
    add("--size", type=positive, default=256, metavar="MIB", help=size)
    add("--folder", type=Path, help="where the I/O kernel has its file (default: --out)")
    add("--node", choices=NODES, default=REAL,
        help="which memory and disk the kernels share: this machine's, or those of an "
        "emulated node of 8 processors; auto: this machine's if its CPUs can fill them "
        "(default real)")  # fmt: skip
    add("--mpi", help="mpich, openmpi or a path, for the network kernel and the NAS jobs")
    names = tuple(PROGRAMS)
    add("--kernels", nargs="+", choices=names, default=names, metavar="KERNEL",
        help="and NAS jobs (btio-e, btio-s, btio-f, dt) of table1 and table2 "
        "(default: all)")  # fmt: skip
    options = bench.parse(words)
    if EVERYTHING in options.parts:
        options.parts = [part for part in PARTS if part != "log" or options.log]
    elif "log" in options.parts and options.log is None:
        bench.error("log: which? name one with --log TRACE.swf[.gz]")
    return options


def cells_of(part: str, options: argparse.Namespace, cpus: int) -> list[Cell]:
    """Returns the measurements that a part needs."""
    if part in FIGURES:
        return figure_cells(part, cpus)
    return table_cells(part, options.kernels, cpus)


def measured(part: str, options: argparse.Namespace) -> Document:
    """Measures what is missing of a part."""
    setting = _setting(part, options)
    cpus = setting.cpus
    samples = Samples(options.out / "symbiosis_samples.jsonl", setting)
    cells = cells_of(part, options, len(cpus))
    left = samples.left(cells, options.repeat)
    used = {name for cell in left for name in (cell.primary, cell.background) if name}
    with (
        tempfile.TemporaryDirectory(prefix="cosched-kernels-") as folder,
        shown_share() as show,
    ):
        built = build(sorted(used), Path(folder), options.mpi)
        place = _folder(options, setting)
        carry_out(
            samples,
            cells,
            options.repeat,
            lambda cell: measure(cell, built, setting, place),
            lambda done, what: show(done, f"{part}: {what}"),
        )
    quiet = samples.quiet(cells)
    document = _of_rates(part, options, len(cpus), samples.rates(cells))
    note = "" if setting.emulated is None else f"{setting.emulated.text}\n"
    note += (
        f"medians of {options.repeat}; others used {quiet.outside_median:.1%} of the "
        f"machine (most {quiet.outside_most:.1%}, host {quiet.stolen_most:.1%})\n"
    )
    return {
        **document,
        "setting": asdict(setting),
        "repeat": options.repeat,
        "quiet": asdict(quiet),
        "text": document["text"] + note,
    }


def _setting(part: str, options: argparse.Namespace) -> Setting:
    """Returns what comparable numbers share, with an emulated node if one is wanted."""
    if options.node == REAL:
        cpus = tuple(sorted(os.sched_getaffinity(0)))
        if len(cpus) < 2:
            raise CoschedError(f"{part}: one CPU is not shared; this needs two or more")
        return Setting(cpus, options.seconds, options.size << 20)
    emulated = EmulatedNode()
    processors = tuple(range(emulated.processors))
    return Setting(processors, options.seconds, EMULATED_SIZE, emulated)


def _folder(options: argparse.Namespace, setting: Setting) -> Path:
    """Returns where the I/O kernel has its file; the disk that is emulated needs none."""
    usual = options.out if setting.emulated is None else Path("/dev/shm")
    folder: Path = options.folder or usual
    return folder.resolve()


def _chosen_node(options: argparse.Namespace) -> str:
    """Measures whether the machine's own memory and disk can be filled."""
    cpus = tuple(sorted(os.sched_getaffinity(0)))
    folder = (options.folder or options.out).resolve()
    with tempfile.TemporaryDirectory(prefix="cosched-kernels-") as programs:
        built = build(list(SHARED), Path(programs), None)
        setup = KernelSetup(cpus, options.size << 20, folder)
        kept = kept_speeds(built, setup, options.seconds, CONTENTION_ROUNDS)
    print("\n".join(described(kept, cpus)))
    return REAL if is_measurable(kept) else EMULATED


def _of_rates(part: str, options: argparse.Namespace, cpus: int, rates: Rates) -> Document:
    if part in FIGURES:
        return figure(part, cpus, rates)
    return (table1 if part == "table1" else table2)(options.kernels, cpus, rates)


def make(part: str, options: argparse.Namespace) -> Document:
    """A part's figures."""
    at_a_time = len(os.sched_getaffinity(0))
    made: dict[str, Callable[[], Document]] = {
        **{name: lambda: measured(part, options) for name in MEASURED},
        "table3": lambda: computed.table3(DATASTAR),
        "table4": lambda: computed.table4(DATASTAR),
        "learner": lambda: computed.learner(DATASTAR),
        "stream": lambda: computed.stream(NPB, options.streams, 100, at_a_time),
        "log": lambda: computed.log(options.log, options.seeds, at_a_time),
    }
    return made[part]()


def kept(folder: Path) -> dict[str, Document]:
    """All parts that a folder holds."""
    files = {part: folder / f"symbiosis_{part}.json" for part in PARTS}
    return {part: read_json(file) for part, file in files.items() if file.exists()}


def write_docs(page: Path, folder: Path, written: PagePart) -> None:
    """The part of the page and its pictures, by what the folder holds."""
    documents = {
        part: found for part, found in kept(folder).items() if part in written.parts
    }
    for part, picture in written.pictures.items():
        if part in documents:
            file = page.parent / picture.file
            file.parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / f"symbiosis_{part}.png", file)
    rewrite(page, written.name, written.section(documents))
    keep(page, written.stored(page, documents))


def _claims_text(part: str, documents: dict[str, Document]) -> str:
    lines = [""]
    for one in claims(part, documents):
        verdict = one.shown or "no claim"
        lines.append(f"{one.source}: {one.what}")
        lines.append(f"  paper: {one.paper or '-'}; ours: {one.ours}; {verdict}")
    return (
        "\n".join(textwrap.fill(line, 80, subsequent_indent="    ") for line in lines)
        + "\n"
    )


def main(words: Sequence[str] | None = None) -> None:
    options = parse(words)
    with in_one_line("symbiosis"):
        options.out.mkdir(parents=True, exist_ok=True)
        if options.node == AUTO and set(options.parts) & set(MEASURED):
            options.node = _chosen_node(options)
        if options.docs is not None:
            check(options.docs, _written(options).name)
        documents = kept(options.out)
        for part in options.parts:
            made = {"command": options.command, "part": part, **make(part, options)}
            documents[part] = made
            text = made["text"] + _claims_text(part, documents)
            stem = options.out / f"symbiosis_{part}"
            write_figure(stem, made, text, draw, ("png", "svg"))
        if options.docs is not None:
            write_docs(options.docs, options.out, _written(options))


def _written(options: argparse.Namespace) -> PagePart:
    """Returns the part of the page that belongs to the node."""
    return ON_EMULATED_NODE if options.node == EMULATED else ON_MACHINE


if __name__ == "__main__":
    main()
