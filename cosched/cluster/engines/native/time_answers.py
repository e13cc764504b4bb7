"""Describes how long jobs may run, and how long they probably will, for users."""

from __future__ import annotations

from typing import NamedTuple

from cosched.cluster.coupling.clock import clock_time
from cosched.cluster.engines.native.run_times import RunTimes
from cosched.cluster.record import Record
from cosched.core.units import NS_PER_S, format_duration


class Times(NamedTuple):
    """The times of a job, in ns; None: not known, or there is none."""

    limit_ns: int | None  #: how long it may run, as its user or the domain wants
    run_ns: int | None  #: how long it will probably run: as earlier runs did
    ends_ns: int | None  #: when it will probably end, by the wall clock

    @property
    def text(self) -> str:
        """The times in words, such as ``expected to end 12:03:04, as runs of 12.3s before;
        no time limit``."""
        parts = []
        if self.ends_ns is not None and self.run_ns is not None:
            end, run = clock_time(self.ends_ns), _shown(self.run_ns)
            parts.append(f"expected to end {end}, after {run} as before")
        elif self.run_ns is not None:
            parts.append(f"expected to take {_shown(self.run_ns)}, as before")
        else:
            parts.append("its run time is not known yet")
        if self.limit_ns is None:
            parts.append("no time limit")
        else:
            parts.append(f"time limit {_shown(self.limit_ns)}")
        return "; ".join(parts)


def times_of(record: Record, run_times: RunTimes, expected_ns: int | None) -> Times:
    """Returns the times of a job. expected_ns: when it will probably start if it waits."""
    limit_ns = record.submission.time_ns or None
    if record.state.over:
        return Times(limit_ns, None, None)
    run_ns = run_times.expected_ns(record)
    if run_ns is not None and limit_ns is not None:
        run_ns = min(run_ns, limit_ns)
    begins_ns = expected_ns if record.started_ns is None else record.started_ns
    ends_ns = None if run_ns is None or begins_ns is None else begins_ns + run_ns
    return Times(limit_ns, run_ns, ends_ns)


def _shown(ns: int) -> str:
    """Returns a time to the second, or a short one to a tenth of it."""
    step = NS_PER_S if ns >= 10 * NS_PER_S else NS_PER_S // 10
    return format_duration(max(1, round(ns / step)) * step)
