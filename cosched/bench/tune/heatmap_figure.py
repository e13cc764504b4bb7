"""Draws the heat map of a search as a picture. Needs matplotlib."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.patches import Rectangle

from cosched.core.node.settings import GMET, SLICE, Span


def draw(document: dict[str, Any], path: Path) -> None:
    """Draws a panel for each variant of a ``cosched tune`` document; frames the best. A
    setting of which a run failed has no figure, as in the text."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "cosched"})
    kernel = _kernel_s(document)
    cells: dict[str, dict[tuple[Span, Span], float]] = {}
    for point in document["points"]:
        values = point["mean_response_s"]
        if point["settings"] is not None and values:
            where = _place(point["settings"])
            cells.setdefault(_variant(point["settings"]), {})[where] = (
                math.nan if None in values else median(values) / kernel
            )
    slices = sorted({place[0] for by_place in cells.values() for place in by_place})
    gmets = sorted({place[1] for by_place in cells.values() for place in by_place})
    figure, panels = plt.subplots(
        1,
        max(1, len(cells)),
        figsize=(1.5 + 4.2 * max(1, len(cells)), 1.5 + 0.5 * len(slices)),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    picture = None
    found = [value for by_place in cells.values() for value in by_place.values()]
    shades = [value for value in found if not math.isnan(value)] or [kernel]
    for panel, (variant, by_place) in zip(panels[0], cells.items(), strict=False):
        rows = [[by_place.get((s, g), math.nan) for g in gmets] for s in slices]
        picture = panel.imshow(
            rows, cmap="viridis_r", vmin=min(shades), vmax=max(shades), aspect="auto"
        )
        for (turn, gmet), value in by_place.items():
            spot = (gmets.index(gmet), slices.index(turn))
            dark = value > (min(shades) + max(shades)) / 2
            panel.text(
                *spot,
                "failed" if math.isnan(value) else f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=9,
                color="white" if dark else "black",
            )
        _frame(panel, document, variant, slices, gmets)
        panel.set_xticks(range(len(gmets)), [GMET.write(g) for g in gmets])
        panel.set_yticks(range(len(slices)), [SLICE.write(s) for s in slices])
        panel.set_xlabel("GMET")
        panel.set_title(variant, fontsize=9)
    panels[0][0].set_ylabel("slice")
    if picture is not None:
        unit = "mean response to the kernel's" if kernel != 1.0 else "mean response, s"
        figure.colorbar(picture, ax=panels[0].tolist(), label=unit)
    figure.suptitle(document["workload"], fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Date": None} if path.suffix == ".svg" else {})
    plt.close(figure)


def _frame(
    panel: Any,
    document: dict[str, Any],
    variant: str,
    slices: list[Span],
    gmets: list[Span],
) -> None:
    best = document["recommended"]
    if best is None or _variant(best) != variant:
        return
    turn, gmet = _place(best)
    corner = (gmets.index(gmet) - 0.5, slices.index(turn) - 0.5)
    panel.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="#d62728", lw=2.5))


def _place(settings: dict[str, str]) -> tuple[Span, Span]:
    return SLICE.parse(settings["slice"]), GMET.parse(settings["gmet"])


def _variant(settings: dict[str, str]) -> str:
    words = [settings.get("mode", ""), "" if settings["align"] == "on" else "not aligned"]
    return ", ".join(filter(None, words)) or "coscheduled"


def _kernel_s(document: dict[str, Any]) -> float:
    """Returns the kernel's mean response; 1 if unknown, so that cells are seconds."""
    found = [p["mean_response_s"] for p in document["points"] if p["settings"] is None]
    values = [value for one in found for value in one if value is not None]
    return median(values) if values else 1.0
