"""Chooses which jobs of several logs are mates. Logs do not say it, so two rules guess.

vicinity (Tang et al., section V.D): the mate of a job is the last job of the first log
that was submitted before it, if that is less than some seconds ago. If several jobs choose
the same mate, the last one gets it. share (section V.E): jobs of each log at equal
distances, such as every tenth.

``Mates`` maps the place of a log to the index of a job there. It always has the first log.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

from cosched.core.cluster.coupling.groups import Group, Timing
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Workload

VICINITY_NS = 120 * NS_PER_S

Mates: TypeAlias = "dict[int, int]"


def by_vicinity(logs: Sequence[Workload], within_ns: int = VICINITY_NS) -> list[Mates]:
    """Returns mates submitted within a time of each other, in the first log's order."""
    first = logs[0].submit_ns
    found: dict[int, Mates] = {}
    for place, log in enumerate(logs[1:], 1):
        for index, submit_ns in enumerate(log.submit_ns):
            mate = bisect_right(first, submit_ns) - 1
            if mate >= 0 and submit_ns - first[mate] < within_ns:
                found.setdefault(mate, {0: mate})[place] = index
    return [found[mate] for mate in sorted(found)]


def by_share(logs: Sequence[Workload], share: float) -> list[Mates]:
    """Returns groups of the jobs at the same places of all logs, the first jobs among them.

    The groups have this share of the shortest log's jobs, at distances that differ by one
    job at most. Raises CoschedError for a share that is not one.
    """
    if not 0.0 < share <= 1.0:
        raise CoschedError(
            f"a share of {share:g} jobs in groups: want more than 0, at most 1"
        )
    places = (int(count / share + 0.5) for count in itertools.count())
    shortest = min(len(log) for log in logs)
    return [
        dict.fromkeys(range(len(logs)), place)
        for place in itertools.takewhile(lambda place: place < shortest, places)
    ]


def groups_of(
    mates: Sequence[Mates],
    names: Sequence[str],
    timing: Timing = Timing.TOGETHER,
    delay_ns: int = 0,
) -> list[dict[int, Group]]:
    """Returns for each log the groups of its jobs."""
    groups: list[dict[int, Group]] = [{} for _ in names]
    for count, members in enumerate(mates):
        group = Group(
            f"g{count}",
            tuple(names[place] for place in members),
            timing,
            delay_ns,
            leader=names[min(members)] if timing is Timing.AFTER else "",
        )
        for place, index in members.items():
            groups[place][index] = group
    return groups
