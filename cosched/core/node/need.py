"""Measures what part of the CPU time a job needs, and credits work in the waits of others.

A job that waits for messages sleeps, and leaves its CPUs to the jobs that are not scheduled.
So two facts about a job are not visible in its slices: how much of them it needs, and how
much it did in the slices of others. Both follow from the CPU time of its class, which the
driver reads now and then (``CpuTimeRead``).

need      the CPU time that a job uses in its own slices, as a part of what it could use. It
          is measured only while another job waits for the CPUs, since a job alone spins. It
          rises at once and falls slowly, so a job gains nothing by a short rest.
credit    the CPU time of a job between two readings without a slice. At its need, that is
          the work of a longer slice; the job's age grows by as much.

A job that needs a quarter of its CPUs leaves three quarters to others. An order by the rest
of the jobs (``slices.rest``) therefore counts the rest of the CPU time: a job that mostly
waits comes before one that computes, and the other one computes in its waits.
"""

from __future__ import annotations

from msgspec import Struct

#: The steps of the order: a job with at most this need counts with half its rest, a quarter,
#: an eighth. Nodes that measure a little different needs mostly choose alike.
STEPS_PERCENT = (70, 50, 35)
#: The least need. A job that uses less waits for its tasks on other nodes, which are not
#: scheduled there.
LEAST_PERCENT = 25
#: A need falls by this part of the difference at each reading.
FALL_PART = 2
#: Readings closer together than this are too inexact.
LEAST_NS = 20_000_000


class Reading(Struct, frozen=True):
    """One reading of a job's CPU time."""

    now_ns: int  #: when, by the monotonic clock
    waited_ns: int  #: the sum of its tasks' waits until then
    age_ns: int  #: how long the job had been scheduled


def need_percent(before: int, used_ns: int, could_ns: int) -> int:
    """Returns the need after a slice in which a job used ``used_ns`` of ``could_ns``.

    before: the need until then, in percent; 0: unknown, which counts as all."""
    before = before or 100
    measured = max(LEAST_PERCENT, min(100, 100 * used_ns // could_ns))
    if measured >= before:
        return measured
    return before - -(-(before - measured) // FALL_PART)


def waits(percent: int) -> bool:
    """Returns whether a job with this need mostly waits."""
    return 0 < percent <= STEPS_PERCENT[0]


def parts(percent: int) -> int:
    """Returns into how many parts the rest of a job with this need is divided: 1, 2, 4 or 8.
    percent: the need; 0: unknown, which counts as all."""
    return 1 << sum(0 < percent <= step for step in STEPS_PERCENT)
