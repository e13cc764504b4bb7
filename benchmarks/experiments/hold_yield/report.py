"""The rows of the hold and yield experiment as a table and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiments.hold_yield.cases import BASE, COMBINATIONS, NAMES
from benchmarks.pictures import picture
from cosched.tables import table as text_table

Row = dict[str, Any]

#: The content of a figure: column, divisor, axis, number of the figure for each sweep.
PANELS = (
    ("mean_wait_s", 60, "mean wait, min", {"load": 3, "share": 7}),
    ("mean_slowdown", 1, "mean slowdown", {"load": 4, "share": 8}),
    ("mean_sync_s", 60, "mean sync time of pairs, min", {"load": 5, "share": 9}),
    ("lost_node_h", 1, "node-hours lost", {"load": 6, "share": 10}),
)
COLOURS = {"HH": "#b2182b", "HY": "#ef8a62", "YH": "#67a9cf", "YY": "#2166ac"}


def table(rows: Sequence[Row]) -> str:
    """Means in minutes, and what was lost as a share of all node-hours."""
    lines = []
    for sweep in sorted({row["sweep"] for row in rows}):
        here = [row for row in rows if row["sweep"] == sweep]
        here.sort(
            key=lambda row: (
                *(row["x"], NAMES.index(row["machine"])),
                *(row["schemes"] != BASE, row["schemes"]),
            )
        )
        head = (f"by {sweep}", "", "", "pairs", "wait", "slowdown", "sync", "lost")
        lines += text_table(head, map(_cells, here), "<<<>>>>>")
    groups, together, stuck = (
        sum(row[name] for row in rows if row["schemes"] != BASE) // 2
        for name in ("groups", "together", "stuck")
    )
    lines.append(f"{together} of {groups} pairs started together; {stuck} jobs never did")
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> Sequence[str]:
    share = row["grouped"] / row["jobs"] if row["schemes"] != BASE else 0.0
    return (
        *(f"{row['x']:g}", row["machine"], row["schemes"], f"{share:.1%}"),
        *(f"{row['mean_wait_s'] / 60:.1f}", f"{row['mean_slowdown']:.1f}"),
        *(f"{row['mean_sync_s'] / 60:.1f}", f"{row['lost_share']:.2%}"),
    )


def draw(rows: Sequence[Row], sweep: str, path: Path) -> None:
    """A panel for each figure of the paper; the base as a black line."""
    here = [row for row in rows if row["sweep"] == sweep]
    values = sorted({row["x"] for row in here})
    cell = {(row["x"], row["schemes"], row["machine"]): row for row in here}
    axis = {"load": "load of the analysis machine", "share": "share of jobs paired"}
    with picture(path, size=(10, 13), rows=4, columns=2) as (figure, axes):
        for (column, divisor, label, numbers), line in zip(PANELS, axes, strict=True):
            for machine, part, panel in zip(NAMES, "ab", line, strict=True):
                for place, schemes in enumerate(COMBINATIONS):
                    heights = [cell[x, schemes, machine][column] / divisor for x in values]
                    where = [count + 0.2 * (place - 1.5) for count in range(len(values))]
                    panel.bar(where, heights, 0.18, color=COLOURS[schemes], label=schemes)
                for count, x in enumerate(values):
                    base = cell[x, BASE, machine][column] / divisor
                    if base:
                        panel.hlines(base, count - 0.45, count + 0.45, "black", label=None)
                number = f"Fig. {numbers[sweep]}{part}"
                panel.set_title(f"{machine}: {label} ({number})", fontsize=9)
                panel.set_xticks(range(len(values)), [f"{x:g}" for x in values])
                panel.set_xlabel(axis[sweep])
        axes[0][0].legend(ncols=4, fontsize=8)
        figure.suptitle("Hold (H) and yield (Y), compute machine first; lines: no pairs")
