"""Reports the ends of jobs, in a thread that lives while there are some to report."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable

from cosched.cluster.answers import EndInfo
from cosched.cluster.client import NoAnswer, NoDomain
from cosched.core.errors import CoschedError
from cosched.jobs.calls.connection import Connect, Connection
from cosched.jobs.following import PATIENCE_S, STANDSTILL_S

#: A job that is added while the watcher asks about others is in the next question.
ASK_AGAIN_S = 0.1
#: The most jobs of a question. If none of them has ended, the next one names others.
NAMED_MOST = 1000
_RETRY_S = 0.5

#: Takes the end of a job, or why it cannot be learned.
Report = Callable[[EndInfo | Exception], None]


class Watcher:
    """Reports the end of each job that is added. connect: connects to the domain."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._reports: dict[int, Report] = {}
        self._thread: threading.Thread | None = None

    def add(self, number: int, report: Report) -> None:
        """Calls ``report`` once, in another thread, when the job has ended."""
        with self._lock:
            self._reports[number] = report
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="cosched-watcher")
                self._thread.start()

    def join(self) -> None:
        """Returns once all ends are reported."""
        while (thread := self._thread) is not None:
            thread.join()

    def _watch(self) -> None:
        away_since: float | None = None
        while not self._is_idle():
            try:
                with self._connect() as client:
                    while numbers := self._first():
                        self._ask(client, numbers, ASK_AGAIN_S)
                        self._put_last(numbers)
                        away_since = None
            except NoDomain as error:
                now = time.monotonic()
                away_since = away_since or now
                patience_s = STANDSTILL_S if isinstance(error, NoAnswer) else PATIENCE_S
                if now >= away_since + patience_s:
                    self._give_up(error)
                time.sleep(_RETRY_S)
            except Exception as error:  # noqa: BLE001  (it is the outcome of the jobs)
                self._give_up(error)

    def _ask(self, client: Connection, numbers: list[int], within_s: float) -> None:
        """Waits until one of these jobs has ended, and reports all that have. If its store
        lacks a job, the domain refuses: then this asks about each job alone."""
        try:
            for end in client.ended(numbers, within_s):
                self._report(end["job"], end)
        except NoDomain:
            raise
        except CoschedError as error:
            if len(numbers) == 1:
                self._report(numbers[0], error)
                return
            for number in numbers:
                self._ask(client, [number], 0.0)

    def _is_idle(self) -> bool:
        """Returns whether the thread ends: all ends are reported."""
        with self._lock:
            if not self._reports:
                self._thread = None
            return not self._reports

    def _first(self) -> list[int]:
        with self._lock:
            return list(itertools.islice(self._reports, NAMED_MOST))

    def _put_last(self, numbers: list[int]) -> None:
        """Lets other jobs be in the next question, if none of these has ended."""
        with self._lock:
            if all(number in self._reports for number in numbers):
                for number in numbers:
                    self._reports[number] = self._reports.pop(number)

    def _report(self, number: int, end: EndInfo | Exception) -> None:
        with self._lock:
            report = self._reports.pop(number, None)
        if report is not None:
            report(end)

    def _give_up(self, error: Exception) -> None:
        for number in self._first():
            self._report(number, error)
