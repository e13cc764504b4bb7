"""Chooses the numbers of nodes for which a program predicts the time of an iteration.

All numbers up to 16 nodes are asked for, and above them each is a quarter larger than the
one before. The library of malleable jobs and the simulator share this rule. The same is in
``cosched/malleable/native/prediction.c``.
"""

from __future__ import annotations

from cosched.core.cluster.resizing.page_records import PREDICTED_MOST

#: Up to this number of nodes if the job has no ideal.
OPEN_NODES = 4096
_ALL_UP_TO = 16


def asked_sizes(minimum: int, ideal: int | None) -> list[int]:
    """Returns the numbers of nodes to ask for, from the minimum to the ideal."""
    most = max(minimum, OPEN_NODES) if ideal is None else ideal
    found: list[int] = []
    size = minimum
    while size < most and len(found) < PREDICTED_MOST - 1:
        found.append(size)
        size += 1 if size < _ALL_UP_TO else size // 4
    return [*found, most]
