"""Describes suspended jobs, and jobs on their nodes, for users and operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cosched.cluster.coupling.clock import clock_time
from cosched.cluster.job_suspension import JobSuspension
from cosched.cluster.record import Record
from cosched.core.units import NS_PER_S


def suspension_fields(record: Record, now_ns: int) -> dict[str, Any]:
    """Returns the fields about suspensions in an answer about a job."""
    stored = record.suspension or JobSuspension()
    until_ns = now_ns if record.ended_ns is None else record.ended_ns
    return {
        "suspensions": stored.done,
        "suspended_s": stored.suspended_ns(until_ns) / NS_PER_S,
        "suspended_for": stored.for_job if stored.is_suspended else None,
        "lender": stored.lender,
    }


def suspension_text(record: Record) -> str:
    """Returns a few words about a running job's suspension, or the nodes that it has from a
    suspended job; empty without either."""
    stored = record.suspension
    if stored is None:
        return ""
    if stored.stopped_ns is not None:
        since = clock_time(stored.stopped_ns)
        if stored.continues:
            return f"was suspended at {since}, and continues"
        return f"is suspended since {since}: job {stored.for_job} has nodes of it"
    if stored.lender is not None:
        return f"has nodes of job {stored.lender}, which was suspended for it"
    return ""


def lender_text(record: Record, live: Iterable[Record]) -> str:
    """Returns a few words about the job that is being stopped for a waiting one; empty if
    there is none."""
    for other in live:
        stored = other.suspension
        if stored is not None and stored.for_job == record.number:
            return f"job {other.number} is being suspended for it"
    return ""


def suspended_jobs(live: Iterable[Record]) -> int:
    """Returns how many jobs are suspended now."""
    return sum(
        record.suspension is not None and record.suspension.is_suspended for record in live
    )
