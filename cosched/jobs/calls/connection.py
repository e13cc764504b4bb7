"""Defines what an executor needs of a client of a domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from cosched.cluster.answers import EndInfo, JobInfo
from cosched.cluster.submission import Submission
from cosched.jobs.job import Job


class Connection(Protocol):
    """A part of ``cosched.Client``."""

    def __enter__(self) -> Connection: ...

    def __exit__(self, *_: object) -> None: ...

    def close(self) -> None:
        """Closes the connection."""

    def prepare(self, job: Job, /) -> Submission:
        """Returns a job as it is sent."""

    def submit(self, job: Submission, /) -> int:
        """Submits a job; returns its number."""

    def job(self, number: int, /) -> JobInfo:
        """Returns a job."""

    def ended(self, numbers: Sequence[int], within_s: float, /) -> list[EndInfo]:
        """Returns the ends of the ended jobs among these."""

    def cancel(self, number: int, /) -> None:
        """Ends a job, or takes it from the queue."""


#: Connects to a domain.
Connect = Callable[[], Connection]
