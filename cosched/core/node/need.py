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

#: A job that needs at most this percentage of its CPUs counts as needing half of them, at
#: most half of that as needing a quarter, and so on. Nodes that measure a little different
#: needs mostly choose alike.
HALF_PERCENT = 70
#: The greatest part by which a need divides.
PARTS_MOST = 8
#: A need falls by this part of the difference at each reading.
FALL_PART = 4
#: Readings closer together than this are too inexact.
LEAST_NS = 20_000_000


class Reading(Struct, frozen=True):
    """One reading of a job's CPU time."""

    now_ns: int  #: when, by the monotonic clock
    cpu_ns: int  #: the CPU time of the job's class until then
    age_ns: int  #: how long the job had been scheduled


def need_percent(before: int, used_ns: int, could_ns: int) -> int:
    """Returns the need after a slice in which a job used ``used_ns`` of ``could_ns``.

    before: the need until then, in percent; 0: unknown."""
    measured = max(1, min(100, 100 * used_ns // could_ns))
    if not before or measured >= before:
        return measured
    return before - -(-(before - measured) // FALL_PART)


def parts(percent: int) -> int:
    """Returns into how many parts the CPU time is divided of which the job needs one: 1, 2,
    4 or 8. percent: the need; 0: unknown, which counts as all."""
    number = 1
    while percent and percent * number <= HALF_PERCENT and number < PARTS_MOST:
        number *= 2
    return number
