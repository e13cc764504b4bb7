"""Asks a program to predict the time of an iteration, for some numbers of nodes.

The same is in ``native/prediction.c``. All numbers up to 16 nodes are asked for, and above
them each is a quarter larger than the one before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

from cosched.core.cluster.resizing.records import PREDICTED_MOST
from cosched.core.units import NS_PER_S

#: Returns the predicted time of an iteration with this many nodes, in seconds.
Predict = Callable[[int], float]

#: Up to this number of nodes if the job has no ideal.
OPEN_NODES = 4096
_ALL_UP_TO = 16
#: No iteration takes longer, in s: a hundred years.
_LONGEST_S = 3.2e9


def sizes(minimum: int, ideal: int | None) -> list[int]:
    """Returns the numbers of nodes to ask for, from the minimum to the ideal."""
    most = max(minimum, OPEN_NODES) if ideal is None else ideal
    found: list[int] = []
    size = minimum
    while size < most and len(found) < PREDICTED_MOST - 1:
        found.append(size)
        size += 1 if size < _ALL_UP_TO else size // 4
    return [*found, most]


def ask(
    predict: Predict, minimum: int, ideal: int | None
) -> tuple[tuple[int, int], ...] | str:
    """Returns the predicted times by number of nodes, in ns; or, in one line, why the
    prediction cannot be used. Never raises."""
    points = []
    for size in sizes(minimum, ideal):
        try:
            time_s = predict(size)
        except Exception as error:  # noqa: BLE001 - whatever the program's function raises
            why = " ".join(str(error).split())[:200]
            return f"with {size} nodes it raised {type(error).__name__}: {why}"
        right = isinstance(time_s, Real) and math.isfinite(time_s)
        if not right or not 0 < time_s <= _LONGEST_S:
            shown = " ".join(repr(time_s).split())[:200]
            return f"with {size} nodes it is {shown}, not a time in seconds"
        points.append((size, max(1, round(float(time_s) * NS_PER_S))))
    return tuple(points)
