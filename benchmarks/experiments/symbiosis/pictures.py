"""The parts of the symbiosis experiment as pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.experiments.symbiosis.measured import FIGURES, PAPER_1
from benchmarks.pictures import picture
from cosched.core.symbiosis.resources import Expectation, Resource, effect_by_labels

Result = Mapping[str, Any]

COLOURS = {
    Expectation.SLOW: "#b2182b",
    Expectation.SYMBIOTIC: "#1a7f37",
    Expectation.UNKNOWN: "#666666",
}
BARS = {"whole": "#bbbbbb", "packed": "#888888", "split": "#ef8a62", "labels": "#67a9cf"}
OTHER_BAR = "#2166ac"


def _draw_contention(result: Result, panels: Any) -> None:
    """Figs. 1 to 4: a line for each background."""
    (panel,) = panels
    own = result["primary"]
    for name, points in result["lines"].items():
        counts, slowdowns = zip(*points, strict=True)
        style = "--" if name == "nobody" else "-"
        panel.plot(counts, slowdowns, style, marker="o", label=f"{own} w/ {name}")
    panel.axhline(0.0, color="black", linewidth=0.7)
    panel.set_xticks([count for count, _ in result["lines"]["nobody"]])
    panel.set_xlabel(f"instances of {own}, on {result['cpus']} CPUs")
    panel.set_ylabel("slowdown")
    # An effect of a hundredth should not look like one.
    bottom, top = panel.get_ylim()
    panel.set_ylim(min(bottom, -0.25), max(top, 0.5))
    panel.legend(fontsize=8)


def _draw_table1(result: Result, panels: Any) -> None:
    """Ours and the paper's side by side."""
    (panel,) = panels
    speedups = result["speedups"]
    names = [
        f"{name}\n({PAPER_1[name][0]})" if name in PAPER_1 else name for name in speedups
    ]
    places = range(len(names))
    panel.bar(
        [place - 0.2 for place in places], speedups.values(), 0.4, color=OTHER_BAR,
        label="here",
    )  # fmt: skip
    known = [
        (place, PAPER_1[name][1]) for place, name in enumerate(speedups) if name in PAPER_1
    ]
    panel.bar(
        [place + 0.2 for place, _ in known], [speedup for _, speedup in known], 0.4,
        color="#bbbbbb", label="DataStar, the benchmark in brackets",
    )  # fmt: skip
    panel.axhline(1.0, color="black", linewidth=0.7)
    panel.set_xticks(places, names)
    panel.set_ylabel("speedup on twice as many nodes")
    panel.set_ylim(0, 1.25 * max(panel.get_ylim()))  # room for the legend
    panel.legend(fontsize=8)


def _draw_matrix(result: Result, panels: Any) -> None:
    """Tables 2 and 4; the colour of a number is what users' labels let one expect."""
    rows = result["applications"]
    names = list(rows)
    limits = {
        name: frozenset(Resource(limit) for limit in rows[name]["limits"]) for name in names
    }
    (panel,) = panels
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
                colour = COLOURS[effect_by_labels(limits[name], limits[other])]
            panel.text(
                across, down, f"{values[down][across]:.2f}", color=colour,
                ha="center", va="center", weight="bold",
            )  # fmt: skip
    panel.set_xticks(range(len(columns)), columns)
    panel.set_yticks(range(len(names)), names)
    panel.set_title(
        "speedup beside ...; by users' labels red: to slow down, green: symbiotic",
        fontsize=9,
    )


def _draw_table3(result: Result, panels: Any) -> None:
    """Draws users' labels (x); green: Table 4 confirms them, red: it does not."""
    (panel,) = panels
    kinds = [resource.value for resource in Resource]
    names = list(result["said"])
    found = {check["application"]: set(check["found"]) for check in result["labels"]}
    for down, name in enumerate(names):
        for across, kind in enumerate(kinds):
            said, seen = kind in result["said"][name], kind in found[name]
            judged = kind in ("memory", "io") and (said or seen)
            colour = "black" if not judged else "#1a7f37" if said and seen else "#b2182b"
            text = "x" if said else "(seen)" if seen else ""
            panel.text(
                across, down, text, ha="center", va="center", color=colour, weight="bold"
            )
    panel.set_xlim(-0.5, len(kinds) - 0.5)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xticks(range(len(kinds)), kinds)
    panel.set_yticks(range(len(names)), names)
    panel.set_title(
        "limits by users' word; memory and I/O green: Table 4 shows it, red: not",
        fontsize=9,
    )


def _draw_learner(result: Result, panels: Any) -> None:
    """All schedules in order; the rounds of experimenting schedulers; their errors."""
    left, middle, right = panels
    rows = result["schedules"]
    colours = [
        COLOURS[Expectation.SYMBIOTIC if row["guided"] else Expectation.SLOW]
        for row in rows
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
    for name, ran in result["rounds"].items():
        rounds = range(1, len(ran) + 1)
        middle.plot(rounds, [100 * (one["throughput"] - 1) for one in ran], marker=".")
        right.plot(rounds, [100 * one["error"] for one in ran], marker=".", label=name)
    guided = [100 * (row["throughput"] - 1) for row in rows if row["guided"]]
    for level, name in ((max(guided), "best"), (min(guided), "worst user-guided")):
        middle.axhline(level, color="black", linewidth=0.7)
        middle.text(1, level, name, ha="left", va="bottom", fontsize=8)
    middle.set_xlabel("round of an experimenting scheduler")
    middle.set_ylabel("gain in throughput, %")
    right.axhline(
        100 * result["error_before"], color="black", linewidth=0.7, linestyle=":",
        label="users' labels, before the first round",
    )  # fmt: skip
    right.set_ylim(0, 140 * result["error_before"])  # room for the legend
    right.set_xlabel("round")
    right.set_ylabel("estimates off by, % on average")
    right.legend(fontsize=8)


def _draw_stream(result: Result, panels: Any) -> None:
    """Speedup over whole nodes: a box over all streams for each placement."""
    rows = result["rows"]
    for panel, (order, queue) in zip(panels, _cells(result), strict=True):
        here = [row for row in rows if (row["order"], row["queue"]) == (order, queue)]
        boxes = panel.boxplot([row["speedups"] for row in here], patch_artist=True)
        for box, row in zip(boxes["boxes"], here, strict=True):
            box.set_facecolor(BARS.get(row["placement"], OTHER_BAR))
        names = [row["placement"] for row in here]
        panel.set_xticks(range(1, len(names) + 1), names, rotation=45, fontsize=8)
        panel.axhline(1.0, color="black", linewidth=0.7)
        panel.set_title(f"{order}, {queue} queued at most", fontsize=9)
    panels[0].set_ylabel("makespan on whole nodes / makespan")


def _cells(result: Result) -> list[tuple[str, int]]:
    return list(dict.fromkeys((row["order"], row["queue"]) for row in result["rows"]))


def _draw_log(result: Result, panels: Any) -> None:
    """Mean wait and response of each placement, each draw of labels a dot."""
    left, right = panels
    rows = result["rows"]
    names = [row["placement"] for row in rows]
    colours = [BARS.get(name, OTHER_BAR) for name in names]
    left.bar(names, [row["mean_wait_s"] / 3600 for row in rows], color=colours)
    for place, row in enumerate(rows):
        left.plot(
            [place] * len(row["waits_s"]), [wait / 3600 for wait in row["waits_s"]], "k."
        )
    left.set_ylabel("mean wait, hours")
    right.bar(names, [row["mean_response_s"] / 3600 for row in rows], color=colours)
    right.set_ylabel("mean response, hours")
    left.set_title(f"{result['trace']}: whole is EASY without sharing", fontsize=9)


@dataclass(frozen=True, slots=True)
class Drawing:
    """The way to draw a part."""

    draw: Callable[[Result, Any], None]  #: draws a result into its panels
    size: tuple[float, float]  #: width and height in inches
    #: The number of panels beside each other.
    panels: Callable[[Result], int] = lambda _result: 1


_CONTENTION = Drawing(_draw_contention, (6, 3.6))
_MATRIX = Drawing(_draw_matrix, (8, 4.2))
DRAWN: Mapping[str, Drawing] = {
    **dict.fromkeys(FIGURES, _CONTENTION),
    "table1": Drawing(_draw_table1, (6, 3.6)),
    "table2": _MATRIX,
    "table3": Drawing(_draw_table3, (6, 3.6)),
    "table4": _MATRIX,
    "learner": Drawing(_draw_learner, (13, 4.2), lambda _result: 3),
    "stream": Drawing(_draw_stream, (11, 4.2), lambda result: len(_cells(result))),
    "log": Drawing(_draw_log, (9, 3.6), lambda _result: 2),
}


def draw(result: Result, path: Path) -> None:
    """Draws the part of a result."""
    part = result["part"]
    drawing = DRAWN[part]
    columns, share_y = drawing.panels(result), part == "stream"
    with picture(path, size=drawing.size, columns=columns, share_y=share_y) as (_, panels):
        drawing.draw(result, panels[0])
