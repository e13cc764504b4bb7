"""Models the time of an iteration as the program itself predicts it.

Prophet asks a program for its costs by callbacks (section 3 of the paper). Here a program
predicts the time of an iteration for some numbers of nodes; between them the time is
interpolated. The model takes the place of the fit, live and simulated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

#: Numbers of nodes and the predicted time of an iteration on so many, in ns.
Prediction = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class PredictedExecution:
    """An execution model (``execution``) from the program's own prediction."""

    points: Prediction  #: by rising numbers of nodes

    def time_ns(self, size: int) -> float:
        """Returns the time of an iteration with this many nodes. Outside the points it is
        that of the nearest one."""
        place = bisect_left(self.points, (size, 0))
        if place == 0:
            return float(self.points[0][1])
        if place == len(self.points):
            return float(self.points[-1][1])
        if self.points[place][0] == size:  # interpolated, it could be rounded to 0
            return float(self.points[place][1])
        (low, before_ns), (high, after_ns) = self.points[place - 1 : place + 1]
        return before_ns + (after_ns - before_ns) * (size - low) / (high - low)

    def __call__(self, size: int, ideal: int) -> float:
        return self.time_ns(size) / self.time_ns(ideal)

    def fastest(self, minimum: int, most: int) -> int:
        """Returns the least number of nodes, within these bounds, with the least time."""
        known = (size for size, _ in self.points if minimum < size < most)
        return min((minimum, *known, most), key=lambda size: (self.time_ns(size), size))


def predicted(points: Sequence[tuple[int, int]]) -> PredictedExecution | None:
    """Returns the model of a prediction. Returns None for none, and for one that cannot be
    right: numbers of nodes that do not rise from 1 on, or a time that is not above 0."""
    sizes = [0, *(size for size, _ in points)]
    rises = all(sizes[i] < sizes[i + 1] for i in range(len(points)))
    if not points or not rises or any(time_ns < 1 for _, time_ns in points):
        return None
    return PredictedExecution(tuple((size, time_ns) for size, time_ns in points))
