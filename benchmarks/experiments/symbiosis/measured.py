"""Figs. 1 to 4 and Tables 1 and 2, from the rates of cells. Pure.

Figures: all CPUs of a node run the primary benchmark on some and a background one on the
rest; the slowdown is against one instance on an otherwise idle node.

Tables: a kernel stands for a parallel job, which has half of each of its nodes. So its
traditional run has the same kernel on the other half; spread over twice as many nodes it
has a free other half (Table 1) or another kernel (Table 2). BTIO and DT are parallel jobs
themselves. The cost of more messages between nodes is not included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from statistics import fmean
from typing import Any

from benchmarks.experiments.symbiosis.cells import Cell, Rates
from benchmarks.kernels.matrix import model_of
from cosched.sim.symbiotic.matrix import model_document
from cosched.sim.symbiotic.symbiotic_table import matrix_table
from cosched.tables import table

Document = dict[str, Any]

#: The paper's benchmarks, and the kernels that stand for them.
BENCHMARKS: Mapping[str, str] = {
    "EP": "cpu",
    "I/O Bench": "io",
    "STREAM": "stream",
    "GUPS": "gups",
}
FIGURES: Mapping[str, str] = {
    "fig1": "EP",
    "fig2": "I/O Bench",
    "fig3": "STREAM",
    "fig4": "GUPS",
}
#: Table 1: the speedup of the same benchmark, or of that which limits a kernel's resource.
PAPER_1: Mapping[str, tuple[str, float]] = {
    "cpu": ("EP", 1.00),
    "stream": ("CG", 1.55),
    "gups": ("IS", 1.12),
    "io": ("BTIO FULL", 1.16),
    "btio-e": ("BTIO EP", 1.16),
    "btio-s": ("BTIO SIMPLE", 4.97),
    "btio-f": ("BTIO FULL", 1.16),
}
#: Table 2: the speedups of two benchmarks beside each other. The kernels stand for CG and
#: IS as in Table 1.
PAPER_2: Mapping[tuple[str, str], tuple[float, float]] = {
    ("stream", "btio-e"): (1.38, 1.07),
    ("stream", "btio-s"): (0.55, 1.03),
    ("stream", "btio-f"): (1.36, 1.12),
    ("gups", "btio-e"): (1.11, 1.07),
    ("gups", "btio-s"): (1.00, 2.41),
    ("gups", "btio-f"): (1.13, 1.13),
}
#: Above this many CPUs not every number of instances is measured.
ALL_COUNTS = 8


def counts(cpus: int) -> list[int]:
    """How many instances of the primary are measured."""
    if cpus <= ALL_COUNTS:
        return list(range(1, cpus + 1))
    return sorted({1, *range(2, cpus, max(2, cpus // ALL_COUNTS)), cpus})


def figure_cells(part: str, cpus: int) -> list[Cell]:
    """The data of a figure."""
    primary = BENCHMARKS[FIGURES[part]]
    cells = []
    for instances in counts(cpus):
        cells.append(Cell(primary, instances))
        if instances < cpus:
            cells += [
                Cell(primary, instances, other, cpus - instances)
                for other in BENCHMARKS.values()
                if other != primary
            ]
    return cells


def figure(part: str, cpus: int, rates: Rates) -> Document:
    """lines: by background, the slowdown for each number of instances; ``nobody``: with
    idle CPUs. impact: the greatest further slowdown by a background."""
    name = FIGURES[part]
    primary = BENCHMARKS[name]
    one = rates[Cell(primary, 1)]

    def slowdown(cell: Cell) -> float:
        return one / rates[cell] - 1.0

    lines = {"nobody": [[n, slowdown(Cell(primary, n))] for n in counts(cpus)]}
    impact = {}
    for other, kernel in BENCHMARKS.items():
        if other == name:
            continue
        cells = {n: Cell(primary, n, kernel, cpus - n) for n in counts(cpus) if n < cpus}
        # All CPUs with the primary: every line ends there.
        lines[other] = [[n, slowdown(cell)] for n, cell in cells.items()]
        lines[other].append(lines["nobody"][-1])
        impact[other] = max(
            rates[Cell(primary, n)] / rates[cell] - 1.0 for n, cell in cells.items()
        )
    document = {
        "primary": name,
        "cpus": cpus,
        "lines": lines,
        "impact": impact,
        "itself": lines["nobody"][-1][1],
    }
    title = f"slowdown of {name}, by instances, on {cpus} CPUs"
    rows = [
        (beside, *(f"{value:.2f}" for _, value in points))
        for beside, points in lines.items()
    ]
    ticks = [str(n) for n, _ in lines["nobody"]]
    text = [title, *table(("beside", *ticks), rows, "<" + ">" * len(ticks))]
    return {**document, "text": "\n".join(text) + "\n"}


def table_cells(part: str, kernels: Sequence[str], cpus: int) -> list[Cell]:
    """The data of a table."""
    half = cpus // 2
    return [
        Cell(one, half, other, half if other else 0)
        for one in kernels
        for other in ((one, None) if part == "table1" else (*kernels, None))
    ]


def table1(kernels: Sequence[str], cpus: int, rates: Rates) -> Document:
    """Returns each kernel's speedup with a free other half."""
    half = cpus // 2
    speedups = {
        name: rates[Cell(name, half)] / rates[Cell(name, half, name, half)]
        for name in kernels
    }
    rows = [
        (name, f"{speedup:.2f}", " ".join(map(str, PAPER_1.get(name, "-"))))
        for name, speedup in speedups.items()
    ]
    lines = table(("kernel", "speedup", "the paper's"), rows, "<><")
    return {"cpus": cpus, "speedups": speedups, "text": "\n".join(lines) + "\n"}


def table2(kernels: Sequence[str], cpus: int, rates: Rates) -> Document:
    """All kernels beside each other: a model, too, for ``cosched sim symbiosis``."""
    half = cpus // 2
    model = model_of(
        {
            (one, other): [rates[Cell(one, half, other, half if other else 0)]]
            for one in kernels
            for other in (*kernels, None)
        },
        kernels,
    )
    speedup = model.matrix.speedup
    mean = fmean(speedup(*pair) for pair in permutations(kernels, 2))
    return {
        **model_document(model),
        "cpus": cpus,
        "mean": mean,
        "text": f"{matrix_table(model)}mean of all pairs: {mean:.2f}\n",
    }
