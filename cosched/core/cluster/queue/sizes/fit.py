"""Fits the time of an iteration to a/P + bP over the sizes that a job has had.

a is the work that the nodes share, and b the part that grows with their number (section 4.3
of the paper). Both are fitted by least squares of the relative errors, and neither is
negative. One size gives no fit: it does not show how the two parts divide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: As a share of its larger product; below it, rounding decides what is left of the other.
LEAST_DETERMINANT = 1e-9


@dataclass(frozen=True, slots=True)
class FittedExecution:
    """An execution model (``execution``) with the time a/P + bP on P nodes, ns."""

    shared_ns: float  #: a
    growing_ns: float  #: b

    def time_ns(self, size: int) -> float:
        """Returns the time of an iteration with this many nodes."""
        return self.shared_ns / size + self.growing_ns * size

    def __call__(self, size: int, ideal: int) -> float:
        return self.time_ns(size) / self.time_ns(ideal)


def fit(times_ns: Mapping[int, float]) -> FittedExecution | None:
    """Returns the model that fits these times of an iteration by size. Returns None for
    fewer than two sizes, and for times so far apart that only one of them counts. All times
    must be above 0."""
    if len(times_ns) < 2:
        return None
    # Each time is weighed by 1/time, so that a relative error counts alike at each size.
    # The sums are those of the normal equations for x = 1 / (P t) and y = P / t.
    xx = sum(1 / (size * time_ns) ** 2 for size, time_ns in times_ns.items())
    yy = sum((size / time_ns) ** 2 for size, time_ns in times_ns.items())
    xy = sum(1 / time_ns**2 for time_ns in times_ns.values())
    x = sum(1 / (size * time_ns) for size, time_ns in times_ns.items())
    y = sum(size / time_ns for size, time_ns in times_ns.items())
    determinant = xx * yy - xy * xy
    if determinant <= LEAST_DETERMINANT * xx * yy:
        return None
    shared_ns = (x * yy - y * xy) / determinant
    growing_ns = (y * xx - x * xy) / determinant
    if shared_ns <= 0.0 and growing_ns <= 0.0:
        return None
    if growing_ns < 0.0:
        return FittedExecution(x / xx, 0.0)
    if shared_ns < 0.0:
        return FittedExecution(0.0, y / yy)
    return FittedExecution(shared_ns, growing_ns)
