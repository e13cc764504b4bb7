"""Expects the lengths of a log's jobs from the user's earlier jobs in it."""

from __future__ import annotations

from collections import defaultdict, deque

from cosched.core.expectation import Likeness, PastRun, expect
from cosched.core.node.knowledge import Expectation
from cosched.sim.logs.workload import Workload

#: The runs of a user that count, the last ones, as in the user's own record.
RUNS_MAX = 200


class Expected:
    """The past runs of each user.

    Jobs are alike if they have the user, the executable, the size and the requested time
    in common. Many logs do not have the executable; then the other three count.
    """

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._runs: dict[int, deque[PastRun]] = defaultdict(lambda: deque(maxlen=RUNS_MAX))

    def of(self, index: int) -> Expectation:
        """Returns the expectation of a job when it is submitted."""
        runs = self._runs[self._workload.user[index]]
        return Expectation(*expect(self._likeness(index), runs))

    def learn(self, index: int, length_ns: int) -> None:
        """Adds a job that has ended."""
        run = PastRun(self._likeness(index), length_ns)
        self._runs[self._workload.user[index]].append(run)

    def _likeness(self, index: int) -> Likeness:
        log = self._workload
        asked = str(log.walltime_ns[index])
        return Likeness(str(log.executable[index]), (asked,), log.size[index])
