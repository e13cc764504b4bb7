"""Makes a future of ``concurrent.futures`` whose work is a job of a domain."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from cosched.cluster.answers import EndInfo
from cosched.cluster.client import NoDomain
from cosched.core.errors import CoschedError

_CANCELLED = "cancelled"


class JobFailed(CoschedError):
    """A job did not end as it should; ``str(error)`` has its number and the reason.

    job: its number. state, status: as in the domain's answers; status None: no task ended.
    """

    def __init__(self, text: str, end: EndInfo) -> None:
        super().__init__(text)
        self.job = end["job"]
        self.state = end["state"]
        self.status = end["status"]


class JobFuture(Future[Any]):
    """The result of a job. job: its number.

    ``cancel`` ends the job, also while it runs. ``running`` asks the domain.
    """

    def __init__(
        self,
        job: int,
        collect: Callable[[EndInfo], Any],
        state: Callable[[int], str],
        end: Callable[[int], None],
    ) -> None:
        """collect: returns the job's result, or raises why there is none. state: returns
        the state of a job. end: cancels a job; raises CoschedError if it has ended."""
        super().__init__()
        self.job = job
        self._collect = collect
        self._ask_state = state
        self._end = end
        self._settling = threading.Lock()
        self._is_unwanted = False

    def cancel(self) -> bool:
        """Ends the job; returns whether this future is cancelled. False: it has ended
        before. Raises NoDomain if the domain does not answer."""
        if self.done():
            return self.cancelled()
        self._is_unwanted = True
        try:
            self._end(self.job)
        except NoDomain:
            self._is_unwanted = False
            raise
        except CoschedError:  # it has ended, and ``take`` comes
            return False
        self._settle(None)
        return self.cancelled()

    def running(self) -> bool:
        """Returns whether the job runs now."""
        return not self.done() and self._ask_state(self.job) in ("starting", "running")

    def take(self, end: EndInfo | Exception) -> None:
        """Takes the job's end, or the reason why it cannot be learned."""
        if isinstance(end, Exception):
            self._settle(lambda: self.set_exception(end))
        elif self._is_unwanted and end["state"] == _CANCELLED:
            self._settle(None)
        else:
            self._settle(lambda: self._take_result(end))

    def _take_result(self, end: EndInfo) -> None:
        try:
            value = self._collect(end)
        except BaseException as error:  # noqa: BLE001  (it is the result)
            self.set_exception(error)
        else:
            self.set_result(value)

    def _settle(self, set_outcome: Callable[[], None] | None) -> None:
        """Sets the outcome unless there is one. None: it is cancelled."""
        with self._settling:
            if self.done():
                return
            if set_outcome is None:
                super().cancel()
                self.set_running_or_notify_cancel()
            else:
                set_outcome()
            del self._collect  # it keeps the files of the job's call
