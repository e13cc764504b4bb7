"""Learns how long the jobs of a domain run, from its own record of ended jobs.

A job is like an earlier one of the same user and program as in ``core.expectation``. It is
expected to take the mean of the last two of these runs (Tsafrir, Etsion and Feitelson,
2007). Only runs that ended well count.
"""

from __future__ import annotations

import posixpath
from collections import deque

from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.core.expectation import Likeness, PastRun, expect

#: The latest jobs of the store that are read when the first question comes.
READ_MOST = 500
#: Programs of users of which runs are known, and runs of each.
PROGRAMS_MOST = 1000
RUNS_MOST = 32
#: The runs that count: the last ones.
_LAST = 2


class RunTimes:
    """The run times of jobs that have ended well."""

    def __init__(self, store: JobStore) -> None:
        self._store = store
        self._runs: dict[tuple[int, str], deque[PastRun]] = {}
        self._is_read = False

    def add(self, record: Record) -> None:
        """Learns from a job that has ended; from one that failed, nothing."""
        if not self._is_read:
            return  # it is in the store
        self._add(record)

    def expected_ns(self, record: Record) -> int | None:
        """Returns how long a job will probably run; None: no run like it is known."""
        self._read()
        like = _likeness_of(record)
        runs = self._runs.get((record.uid, like.program), ())
        last_ns = expect(like, runs).lengths_ns[-_LAST:]
        return sum(last_ns) // len(last_ns) if last_ns else None

    def _read(self) -> None:
        if self._is_read:
            return
        self._is_read = True
        for record in reversed(list(self._store.latest(READ_MOST))):
            self._add(record)

    def _add(self, record: Record) -> None:
        began_ns, ended_ns = record.started_ns, record.ended_ns
        if record.state is not State.DONE or record.status != 0:
            return
        if began_ns is None or ended_ns is None or ended_ns <= began_ns:
            return
        like = _likeness_of(record)
        key = record.uid, like.program
        runs = self._runs.pop(key, None) or deque(maxlen=RUNS_MOST)
        runs.append(PastRun(like, ended_ns - began_ns))
        self._runs[key] = runs  # the latest program is the last one
        if len(self._runs) > PROGRAMS_MOST:
            del self._runs[next(iter(self._runs))]


def _likeness_of(record: Record) -> Likeness:
    """Returns what makes other jobs of the same user like this one."""
    job = record.submission
    program, *args = job.argv
    if "/" in program:
        program = posixpath.normpath(posixpath.join(job.cwd, program))
    return Likeness(f"{program} {job.program or job.name}", tuple(args), job.tasks)
