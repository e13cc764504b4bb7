"""Counts times in the bins of a histogram with a logarithmic axis. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median_high
from typing import Any

from cosched.core.units import NS_PER_S

BINS_PER_DECADE = 6

Json = dict[str, Any]


def histogram(
    title: str, about: str, values_ns: Mapping[str, Sequence[int]]
) -> Json | None:
    """Counts each series in the same bins, of equal width on the logarithmic axis.

    Returns None if there is nothing to count. ``edges_s`` has one entry more than
    ``counts``.
    """
    bins = {
        name: Counter(_bin(value) for value in values if value > 0)
        for name, values in values_ns.items()
    }
    used = [index for counts in bins.values() for index in counts]
    if not used:
        return None
    span = range(min(used), max(used) + 1)
    return {
        "title": title,
        "about": about,
        "edges_s": [_edge_s(index) for index in range(span.start, span.stop + 1)],
        "series": [
            {
                "name": name,
                "counts": [counts[index] for index in span],
                "median_s": median_high(values_ns[name]) / NS_PER_S,
            }
            for name, counts in bins.items()
            if counts
        ],
    }


def _bin(value_ns: int) -> int:
    return math.floor(math.log10(value_ns) * BINS_PER_DECADE + 1e-9)


def _edge_s(index: int) -> float:
    return float(10 ** (index / BINS_PER_DECADE) / NS_PER_S)
