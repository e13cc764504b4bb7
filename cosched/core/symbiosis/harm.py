"""Decides which job gives way if a job is slowed beyond the limit of the node.

A job that agreed to share nodes is promised a limit, such as 1.10 times its time alone. As
soon as the trials show that it is beyond (``speeds``), the job that came last of all on the
node gives way: without sharing it would still wait in the queue. Two cases:

- An earlier job is slowed. The last one runs for the part of the time in which the limit
  is kept. With the speed v beside it, and the part p of the time, the earlier job has the
  speed 1 - p + p * v, which must be 1 / limit.
- Only the last one is slowed. It waits for the others.

A job that gives way runs for at least ``LEAST_PERCENT`` of the time, so that it never
stands still for good. The rest is waiting, as in a queue, and no run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cosched.core.node.messages import Job
from cosched.core.symbiosis.speeds import Estimate

#: A job that gives way still runs for at least this part of the time, in percent.
LEAST_PERCENT = 5


class Party(NamedTuple):
    """A job beside others."""

    job: Job  #: its key
    known: Estimate | None  #: its speed beside all the others; None: unknown


class GiveWay(NamedTuple):
    """An order that a job runs only for a part of the time."""

    job: Job  #: the job that gives way
    sake: Job  #: the job that is slowed: an earlier one, or the same one
    percent: int  #: the part of the time for which it still runs


def give_way(parties: Sequence[Party], limit: float) -> GiveWay | None:
    """Returns which job gives way; None if no job is surely slowed beyond the limit.
    parties: all jobs that share the node, in the order of their submission."""
    slowed = [
        (party.job, party.known.slowdown)
        for party in parties
        if party.known is not None and party.known.is_beyond(limit)
    ]
    if not slowed or len(parties) < 2:
        return None
    last = parties[-1].job
    earlier = [(slowdown, job) for job, slowdown in slowed if job != last]
    if not earlier:
        return GiveWay(last, last, LEAST_PERCENT)
    slowdown, sake = max(earlier)
    return GiveWay(last, sake, max(LEAST_PERCENT, int(100 * _part(slowdown, limit))))


def _part(slowdown: float, limit: float) -> float:
    """Returns the part of the time in which a job may be slowed, so that on average the
    limit is kept."""
    return (1 - 1 / limit) / (1 - 1 / slowdown)
