"""Draws the observed responses as a heat map in text of at most 80 columns. Pure.

A cell is the mean response divided by the kernel's, or in seconds if the kernel's is
unknown. Its shade shows the distance from the best.
"""

from __future__ import annotations

import math
from statistics import median

from cosched.bench.tune.search import KERNEL, MARGIN, Advice, Grid, Observed, Setting
from cosched.core.node.settings import GMET, SLICE
from cosched.tables import WIDTH

_CELL = 10
_LABEL = 11
#: Columns of a map.
_ACROSS = (WIDTH - _LABEL) // _CELL
#: The distances from the best at which the shades begin.
_BOUNDS = (0.05, MARGIN, 2 * MARGIN)
_SHADES = (" ", "\N{LIGHT SHADE}", "\N{MEDIUM SHADE}", "\N{DARK SHADE}")
#: A point whose GMET is not below its slice is not tried: no message would switch.
_NO_POINT = ""


def heat_map(grid: Grid, observed: Observed, advice: Advice) -> list[str]:
    """Returns a map for each variant and a legend.

    The default gets a separate map if it belongs to no variant.
    """
    lines: list[str] = []
    for variant in grid.variants:
        lines += [*_one_map(grid, observed, advice, variant), ""]
    if grid.default.variant not in grid.variants:
        alone = Grid((grid.default.variant,), (), (), grid.default)
        lines += ["the default, in the daemons' present mode:"]
        lines += [*_one_map(alone, observed, advice, grid.default.variant), ""]
    unit = "mean response to the kernel's" if _reference(observed) else "mean response, s"
    lines += [
        f"{unit}; * the best; (one run); darker: worse;",
        "- not tried, since its neighbours are clearly worse",
    ]
    return lines


def _one_map(grid: Grid, observed: Observed, advice: Advice, variant: str) -> list[str]:
    tried = [one for one in observed if isinstance(one, Setting) and one.variant == variant]
    gmets = sorted({*grid.gmets, *(one.gmet for one in tried)})
    slices = sorted({*grid.slices, *(one.slice for one in tried)})
    points = {*grid.points(), *tried}
    lines = [f"{variant}: slice by GMET" if variant else "slice by GMET"]
    for first in range(0, len(gmets), _ACROSS):
        shown = gmets[first : first + _ACROSS]
        head = "".join(f"{GMET.write(gmet):>{_CELL - 2}}  " for gmet in shown)
        lines.append((" " * _LABEL + head).rstrip())
        for turn in slices:
            row = [Setting(variant, turn, gmet) for gmet in shown]
            cells = [_cell(one, points, observed, advice) for one in row]
            label = f"{SLICE.write(turn):>{_LABEL}}"
            lines.append((label + "".join(f"{cell:>{_CELL}}" for cell in cells)).rstrip())
    return lines


def _cell(one: Setting, points: set[Setting], observed: Observed, advice: Advice) -> str:
    if one not in points:
        return _NO_POINT
    if one not in observed:
        return "-  "
    values = observed[one]
    if math.isinf(max(values)):
        return "failed "
    value = median(values) / (_reference(observed) or 1.0)
    text = f"{value:.2f}"
    text = f"({text})" if len(values) == 1 else f"{text} "
    mark = "*" if one == advice.best else ""
    return f"{mark}{text}{_shade(median(values), observed)}"


def _shade(value: float, observed: Observed) -> str:
    """Returns the shade for the distance from the best."""
    known = [
        median(values)
        for one, values in observed.items()
        if isinstance(one, Setting) and not math.isinf(max(values))
    ]
    away = value / min(known) - 1
    return _SHADES[sum(away >= bound for bound in _BOUNDS)]


def _reference(observed: Observed) -> float | None:
    """Returns the kernel's mean response, if known."""
    values = observed.get(KERNEL, ())
    return median(values) if values and not math.isinf(max(values)) else None
