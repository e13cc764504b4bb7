"""Counts how well the lengths of jobs were expected."""

from __future__ import annotations

from msgspec import Struct

from cosched.core.trace.job_record import JobRecord

#: An expectation is met if it differs from the job's length by at most this part of it.
MET_PART = 0.25


class ExpectationCounts(Struct):
    """The sums over jobs that ended with complete records."""

    known: int = 0  #: jobs with an expectation
    unknown: int = 0  #: jobs without an expectation
    met: int = 0  #: jobs whose expectation was met; see ``MET_PART``
    error_s: float = 0.0  #: the differences of expected and real lengths, in seconds
    scheduled_s: float = 0.0  #: the lengths of known jobs, in seconds

    def add(self, record: JobRecord) -> None:
        """Counts a job that has ended."""
        if not record.is_complete:
            return
        if not record.expected_s:
            self.unknown += 1
            return
        error_s = abs(record.expected_s - record.scheduled_s)
        self.known += 1
        self.met += error_s <= MET_PART * record.scheduled_s
        self.error_s += error_s
        self.scheduled_s += record.scheduled_s
