"""The parts of the symbiosis experiment as pictures, and as a section of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cosched.core.symbiosis.resources import Expectation, Resource, expected

Result = Mapping[str, Any]

COLOURS = {
    Expectation.SLOW: "#b2182b",
    Expectation.SYMBIOTIC: "#1a7f37",
    Expectation.UNKNOWN: "#666666",
}
BARS = {"whole": "#bbbbbb", "packed": "#888888", "split": "#ef8a62", "labels": "#67a9cf"}
OTHER_BAR = "#2166ac"


def _figure(
    width: float, height: float, panels: int, share_y: bool = False
) -> tuple[Any, Any]:
    import matplotlib as mpl

    mpl.use("Agg")
    # So that the same figures give the same bytes.
    mpl.rcParams["svg.hashsalt"] = "cosched"
    from matplotlib import pyplot as plt

    return plt.subplots(
        1, panels, figsize=(width, height), layout="constrained", sharey=share_y
    )


def _save(figure: Any, stem: Path) -> None:
    from matplotlib import pyplot as plt

    figure.savefig(stem.with_name(stem.name + ".png"), dpi=80)
    figure.savefig(stem.with_name(stem.name + ".svg"), metadata={"Date": None})
    plt.close(figure)


def draw_table4(result: Result, stem: Path) -> None:
    """The matrix; the colour of a number is what users' labels let one expect."""
    rows = result["applications"]
    names = list(rows)
    limits = {
        name: frozenset(Resource(limit) for limit in rows[name]["limits"]) for name in names
    }
    figure, panel = _figure(8, 4.2, 1)
    columns = [*names, "nobody"]
    values = [
        [*(rows[name]["beside"][other] for other in names), rows[name]["idle"]]
        for name in names
    ]
    panel.imshow(values, cmap="RdYlGn", vmin=0.5, vmax=1.5, alpha=0.35, aspect="auto")
    for down, name in enumerate(names):
        for across, other in enumerate(columns):
            colour = "black"
            if other in names and other != name:
                colour = COLOURS[expected(limits[name], limits[other])]
            panel.text(
                across, down, f"{values[down][across]:.2f}", color=colour,
                ha="center", va="center", weight="bold",
            )  # fmt: skip
    panel.set_xticks(range(len(columns)), columns)
    panel.set_yticks(range(len(names)), names)
    panel.set_title(
        "speedup beside ... (Table 4); by users' labels red: to slow down, "
        "green: symbiotic",
        fontsize=9,
    )
    _save(figure, stem)


def draw_schedules(result: Result, stem: Path) -> None:
    """All schedules in order; and the rounds of an experimenting scheduler."""
    figure, (left, right) = _figure(10, 4.2, 2)
    rows = result["schedules"]
    colours = [
        COLOURS[Expectation.SYMBIOTIC] if row["guided"] else "#b2182b" for row in rows
    ]
    left.barh(
        range(len(rows)), [100 * (row["throughput"] - 1) for row in rows], color=colours
    )
    labels = [
        " ".join("+".join(name[:2] for name in pair if name) for pair in row["pairs"])
        for row in rows
    ]
    left.set_yticks(range(len(rows)), labels, fontsize=7)
    left.set_xlabel("gain in throughput, %; red: users' labels warn")
    rounds = result["rounds"]
    right.step(
        range(1, len(rounds) + 1), [100 * (speedup - 1) for speedup in rounds], where="mid"
    )
    guided = [100 * (row["throughput"] - 1) for row in rows if row["guided"]]
    for level, name in ((max(guided), "best"), (min(guided), "worst user-guided")):
        right.axhline(level, color="black", linewidth=0.7)
        right.text(len(rounds), level, name, ha="right", va="bottom", fontsize=8)
    right.set_ylim(0, None)
    right.set_xlabel("round of an experimenting scheduler")
    right.set_ylabel("gain in throughput, %")
    _save(figure, stem)


def _pairs(pairs: Sequence[Sequence[str | None]]) -> str:
    return " ".join("+".join(name[:2] for name in pair if name) for pair in pairs)


def draw_streams(result: Result, stem: Path) -> None:
    """Speedup over whole nodes: a box over all streams for each placement."""
    rows = result["rows"]
    cells = list(dict.fromkeys((row["order"], row["queue"]) for row in rows))
    figure, panels = _figure(11, 4.2, len(cells), share_y=True)
    for panel, (order, queue) in zip(panels, cells, strict=True):
        here = [row for row in rows if (row["order"], row["queue"]) == (order, queue)]
        boxes = panel.boxplot([row["speedups"] for row in here], patch_artist=True)
        for box, row in zip(boxes["boxes"], here, strict=True):
            box.set_facecolor(BARS.get(row["placement"], OTHER_BAR))
        names = [row["placement"] for row in here]
        panel.set_xticks(range(1, len(names) + 1), names, rotation=45, fontsize=8)
        panel.axhline(1.0, color="black", linewidth=0.7)
        panel.set_title(f"{order}, {queue} queued at most", fontsize=9)
    panels[0].set_ylabel("makespan on whole nodes / makespan")
    _save(figure, stem)


DRAWN: dict[str, Callable[[Result, Path], None]] = {
    "table4": draw_table4,
    "schedules": draw_schedules,
    "streams": draw_streams,
}


def section(results: Mapping[str, Result]) -> str:
    """Paper and result side by side, as Markdown."""
    found = results["table4"]["assessment"]
    rounds = results["schedules"]["rounds"]
    streams = results["streams"]
    best = found["best_throughput"]
    settled = next(place for place in range(len(rounds)) if set(rounds[place:]) == {best})
    cell = {(row["order"], row["queue"], row["placement"]): row for row in streams["rows"]}
    split = cell["largest", 12, "split"]
    packed = cell["largest", 12, "packed"]
    rows = [
        ("mean slowdown where users expect one", "16.25%", f"{1 - found['slow_mean']:.2%}"),
        (
            "predictions of symbiosis that are right",
            "94%",
            f"{found['symbiotic_right']} of {found['symbiotic']}",
        ),
        (
            "user-guided, at random",
            "15%",
            f"{found['random'] - 1:.1%}, the mean over the combinations nobody warns of "
            f"({found['guided_mean'] - 1:.1%} over the schedules made of them, "
            f"{found['symbiotic_mean'] - 1:.1%} over the predicted combinations alone)",
        ),
        ("best schedule", "22.3%", f"{best - 1:.1%}, the same pairs"),
        (
            "worst user-guided schedule",
            "7%",
            f"{found['worst_throughput'] - 1:.1%}, the same pairs",
        ),
        ("any schedule, blindly", "", f"{found['blind_mean'] - 1:.1%}"),
        (
            "an experimenting scheduler finds the best, and pays nothing",
            "expected",
            f"for good after {settled} rounds, never below {min(rounds) - 1:.1%}",
        ),
        (
            "the prototype on the 100-job stream, over DataStar's scheduler",
            "1.20",
            f"{split['compared_over_whole']:.2f} over whole nodes for each job, "
            f"{split['compared_over_packed']:.2f} if small jobs share nodes there, too",
        ),
    ]
    lines = ["| claim | paper | ours |", "|---|---|---|"]
    lines += [f"| {claim} | {paper} | {ours} |" for claim, paper, ours in rows]
    lines += [
        "",
        f"Makespans of streams, means of {streams['repeat']}; speedup over whole nodes for "
        "each job, and",
        "over packed ones:",
        "",
        "| | " + " | ".join(f"{order}, {queue} queued" for order, queue in _cells(cell)),
        "|---" * (1 + len(_cells(cell))) + "|",
    ]
    lines[-2] += " |"
    for name in dict.fromkeys(row["placement"] for row in streams["rows"]):
        values = [
            f"{cell[order, queue, name]['over_whole']:.2f}, "
            f"{cell[order, queue, name]['over_packed']:.2f}"
            for order, queue in _cells(cell)
        ]
        lines.append(f"| {name} | " + " | ".join(values) + " |")
    lines += [
        "",
        f"Of the prototype's {split['compared_over_whole']:.2f}, "
        f"{packed['compared_over_whole']:.2f} comes with two small jobs on a node alone.",
    ]
    return "\n".join(lines)


def _cells(cell: Mapping[tuple[str, int, str], Any]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((order, queue) for order, queue, _ in cell))
