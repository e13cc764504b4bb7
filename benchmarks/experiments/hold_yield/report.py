"""The rows of the hold and yield experiment as a table and as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = dict[str, Any]

#: The content of a figure: column, divisor, axis, number of the figure for each sweep.
PANELS = (
    ("mean_wait_s", 60, "mean wait, min", {"load": 3, "share": 7}),
    ("mean_slowdown", 1, "mean slowdown", {"load": 4, "share": 8}),
    ("mean_sync_s", 60, "mean sync time of pairs, min", {"load": 5, "share": 9}),
    ("lost_node_h", 1, "node-hours lost", {"load": 6, "share": 10}),
)
BASE = "none"
COMBINATIONS = ("HH", "HY", "YH", "YY")
COLOURS = {"HH": "#b2182b", "HY": "#ef8a62", "YH": "#67a9cf", "YY": "#2166ac"}
HEAD = f"{'':<24}{'pairs':>7}{'wait':>9}{'slowdown':>10}{'sync':>9}{'lost':>8}"


def table(rows: Sequence[Row]) -> str:
    """Means in minutes, and what was lost as a share of all node-hours."""
    lines = []
    for sweep in sorted({row["sweep"] for row in rows}):
        lines += [f"by {sweep}", HEAD]
        for x in sorted({row["x"] for row in rows if row["sweep"] == sweep}):
            for machine in ("compute", "analysis"):
                here = [
                    row
                    for row in rows
                    if (row["sweep"], row["x"], row["machine"]) == (sweep, x, machine)
                ]
                here.sort(key=lambda row: (row["schemes"] != BASE, row["schemes"]))
                lines += [_line(row) for row in here]
    groups, together, stuck = (
        sum(row[name] for row in rows if row["schemes"] != BASE) // 2
        for name in ("groups", "together", "stuck")
    )
    lines.append(f"{together} of {groups} pairs started together; {stuck} jobs never did")
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    label = f"{row['x']:<6g} {row['machine']:<9} {row['schemes']}"
    share = row["grouped"] / row["jobs"] if row["schemes"] != BASE else 0.0
    return (
        f"{label:<24}{share:>7.1%}{row['mean_wait_s'] / 60:>9.1f}"
        f"{row['mean_slowdown']:>10.1f}{row['mean_sync_s'] / 60:>9.1f}"
        f"{row['lost_share']:>8.2%}"
    )


def draw(rows: Sequence[Row], sweep: str, path: Path) -> None:
    """A panel for each figure of the paper; the base as a black line."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    values = sorted({row["x"] for row in rows if row["sweep"] == sweep})
    cell = {
        (row["x"], row["schemes"], row["machine"]): row
        for row in rows
        if row["sweep"] == sweep
    }
    figure, axes = plt.subplots(4, 2, figsize=(10, 13), layout="constrained")
    for (column, divisor, label, numbers), line in zip(PANELS, axes, strict=True):
        for machine, part, panel in zip(("compute", "analysis"), "ab", line, strict=True):
            for place, schemes in enumerate(COMBINATIONS):
                heights = [cell[x, schemes, machine][column] / divisor for x in values]
                where = [count + 0.2 * (place - 1.5) for count in range(len(values))]
                panel.bar(where, heights, 0.18, color=COLOURS[schemes], label=schemes)
            for count, x in enumerate(values):
                base = cell[x, BASE, machine][column] / divisor
                if base:
                    panel.hlines(base, count - 0.45, count + 0.45, "black", label=None)
            panel.set_title(f"{machine}: {label} (Fig. {numbers[sweep]}{part})", fontsize=9)
            panel.set_xticks(range(len(values)), [f"{x:g}" for x in values])
            panel.set_xlabel(
                "load of the analysis machine"
                if sweep == "load"
                else "share of jobs paired"
            )
    axes[0][0].legend(ncols=4, fontsize=8)
    figure.suptitle("Hold (H) and yield (Y), compute machine first; lines: no pairs")
    figure.savefig(path, dpi=80)
    plt.close(figure)
