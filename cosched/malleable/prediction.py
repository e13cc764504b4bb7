"""Asks a program to predict the time of an iteration, for some numbers of nodes.

The same is in ``native/prediction.c``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real

from cosched.core.cluster.resizing.asked_sizes import asked_sizes
from cosched.core.units import NS_PER_S

#: Returns the predicted time of an iteration with this many nodes, in seconds.
Predict = Callable[[int], float]

#: No iteration takes longer, in s: a hundred years.
_LONGEST_S = 3.2e9


def ask(
    predict: Predict, minimum: int, ideal: int | None
) -> tuple[tuple[int, int], ...] | str:
    """Returns the predicted times by number of nodes, in ns; or, in one line, why the
    prediction cannot be used. Never raises."""
    points = []
    for size in asked_sizes(minimum, ideal):
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
