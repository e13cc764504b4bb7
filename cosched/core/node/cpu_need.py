"""Measures what part of its CPUs a job needs while it is scheduled.

A job that waits for messages or for a disk sleeps, and leaves its CPUs to jobs that are not
scheduled. Its *need* is the rest: the part of its own slices in which it does not wait. The
driver reads now and then how long the tasks have waited for messages, for how long they had
or wanted a CPU, and how much CPU time the job has used (``UseRead``).

The tasks report their waits for messages themselves. Where another job competes, the CPU
time shows whether that is true: the need is at least what the job used. A job alone may
spin while it waits, so its CPU time shows nothing.

Other waits show only in the kernel's account: a task that waits for a disk neither has a
CPU nor wants one. The time in which it waits for its turn on a CPU belongs to the need, so
other work on the node does not look like waits of the job. The first thread of a task
stands for the task, unless its other threads use more CPU time.

An order by the rest of the jobs (``slices.rest``) prefers a job that mostly waits to one
that computes: the other one computes in its waits, so both advance. For the same reason a
job that computes gets more of these waits than other jobs that wait (``groups``).
"""

from __future__ import annotations

from msgspec import Struct

#: A job with at most this need mostly waits.
WAITS_PERCENT = 70
#: From this need on a job counts with its whole cost. The needs of jobs that compute differ
#: a little between nodes, which must not change their order.
COMPUTES_PERCENT = 85
#: The least need. A job that needs less waits for its tasks on other nodes, which are not
#: scheduled there.
LEAST_PERCENT = 25
#: A need approaches what is measured by this part of the difference.
STEP_PART = 4
#: Readings closer together than this are too inexact.
LEAST_NS = 20_000_000


class Use(Struct, frozen=True):
    """What the tasks of a job have done since they began."""

    waited_ns: int  #: the sum of their waits for messages
    cpu_ns: int | None  #: the CPU time of the job's class; None: unknown
    #: How long their first threads had or wanted a CPU, in sum; None: it was not read.
    wanted_ns: int | None = None


class Reading(Struct, frozen=True):
    """One reading of a job's use."""

    now_ns: int  #: when, by the monotonic clock
    age_ns: int  #: how long the job had been scheduled
    contended: bool  #: whether another job waited for its CPUs
    use: Use  #: its use until then


def measured_percent(before: Reading, after: Reading, tasks: int, cpus: int) -> int | None:
    """Returns the need between two readings, in percent of the CPUs that it can use.

    None if the job was not scheduled all the time, if the time is too short, if a task
    left, or if the CPU time that must confirm it is unknown."""
    passed_ns = after.now_ns - before.now_ns
    if passed_ns < LEAST_NS or after.age_ns - before.age_ns != passed_ns:
        return None
    could_ns = passed_ns * max(1, min(tasks, cpus))
    waited_ns = after.use.waited_ns - before.use.waited_ns
    if waited_ns < 0:  # a task has left
        return None
    needed_ns = passed_ns * tasks - waited_ns
    used_ns = _difference(before.use.cpu_ns, after.use.cpu_ns)
    wanted_ns = _difference(before.use.wanted_ns, after.use.wanted_ns)
    if used_ns is not None and wanted_ns is not None:
        if wanted_ns < 0:  # a task has left
            return None
        needed_ns = min(needed_ns, max(wanted_ns, used_ns))
    if before.contended and after.contended:
        if used_ns is None:
            return None
        needed_ns = max(needed_ns, used_ns)
    return max(LEAST_PERCENT, min(100, 100 * needed_ns // could_ns))


def _difference(before_ns: int | None, after_ns: int | None) -> int | None:
    return None if before_ns is None or after_ns is None else after_ns - before_ns


def next_percent(before: int, measured: int) -> int:
    """Returns the need after a measurement. before: until then; 0: unknown."""
    if not before:
        return (100 + measured) // 2
    return before + (measured - before) // STEP_PART


def mostly_waits(percent: int) -> bool:
    """Returns whether a job with this need waits so much that others can use its CPUs.
    percent: the need; 0: unknown, which counts as all."""
    return 0 < percent <= WAITS_PERCENT


def weighted_ns(cost_ns: int, percent: int) -> int:
    """Returns the cost with which a job of this need is ordered.

    Job W needs the part u of its CPUs, and job F computes in the rest. Then both advance at
    the rates 1 and 1 - u; if F comes first, only F advances. Where W's cost times u is less
    than F's cost, W first gives the less mean response, and it always ends both sooner. The
    cost times the square of u weighs these two. Between ``WAITS_PERCENT`` and
    ``COMPUTES_PERCENT`` the weight rises evenly to 1."""
    if not 0 < percent < COMPUTES_PERCENT:
        return cost_ns
    if mostly_waits(percent):
        return cost_ns * percent * percent // 10_000
    above, width = percent - WAITS_PERCENT, COMPUTES_PERCENT - WAITS_PERCENT
    squared = WAITS_PERCENT * WAITS_PERCENT
    return cost_ns * (squared * width + (10_000 - squared) * above) // (10_000 * width)
