"""Chooses the labels of jobs in metrics, so that the number of time series is bounded.

Each run of a program has a name of its own, and Prometheus keeps a series for each name. So
a job's labels are its name without the run's number and suffix, its user, and its lane: one
of 16 numbers that keep runs of one name apart. The lane comes from the job's key, so it is
the same on all nodes.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

#: Runs of one name that are on a node at once; further ones have no series.
LANES = 16
#: Names and users that have series of their own at once.
MOST_NAMES = 64
#: How long a name is kept after its last job.
KEPT_S = 3600.0
OTHER = "other"
#: The suffix of ``cosched.launch.environment.default_job_name``.
_SUFFIX = r"-[0-9a-hijkmnp-z]{5}"
_NUMBERS = r"(?:[-._][0-9]+)+"

Labels = tuple[str, str, str]


def name_of_runs(name: str) -> str:
    """Returns the part of a job's name that all runs have: without the suffix and the
    numbers at its end."""
    for end in (_SUFFIX, _NUMBERS):
        cut = re.search(f"{end}$", name)
        if cut is not None and cut.start() > 0:
            name = name[: cut.start()]
    return name


def lane_of(key: str) -> int:
    """Returns the lane in which a job is if no other run of its name is there."""
    return zlib.crc32(key.encode()) % LANES


class JobLabels:
    """Gives jobs their labels; remembers the names that have series of their own."""

    def __init__(self) -> None:
        self._seen_s: dict[tuple[str, str], float] = {}

    def label(
        self, jobs: Iterable[Mapping[str, Any]], now_s: float
    ) -> Iterator[tuple[Mapping[str, Any], Labels]]:
        """Yields each job with its labels: name, uid and lane.

        ``now_s``: any clock that does not go back. A job without a free lane is left out.
        """
        self._forget(now_s)
        taken: set[Labels] = set()
        for job in jobs:
            name, uid = self._known(name_of_runs(job["name"]), str(job["uid"]), now_s)
            first = lane_of(job["key"])
            lanes = ((first + step) % LANES for step in range(LANES))
            found = ((name, uid, str(lane)) for lane in lanes)
            labels = next((one for one in found if one not in taken), None)
            if labels is not None:
                taken.add(labels)
                yield job, labels

    def _known(self, name: str, uid: str, now_s: float) -> tuple[str, str]:
        one = (name, uid)
        if one not in self._seen_s and len(self._seen_s) >= MOST_NAMES:
            return OTHER, ""
        self._seen_s[one] = now_s
        return one

    def _forget(self, now_s: float) -> None:
        since_s = now_s - KEPT_S
        self._seen_s = {one: at_s for one, at_s in self._seen_s.items() if at_s >= since_s}
