"""Waits while a disk is full, so that nothing is lost that must be stored.

A controller acts only after it has stored. So it stands still meanwhile: jobs run on, their
ends wait at their nodes, and users get their answers later.
"""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TypeVar

from cosched.cluster.database_errors import is_full
from cosched.cluster.user_requests import FULL_DISK_S
from cosched.core.errors import CoschedError
from cosched.linux.processes.handlers import handled
from cosched.linux.processes.signals import signal_name

T = TypeVar("T")

POLL_S = 0.25
_ENDING = (signal.SIGTERM, signal.SIGINT)


class SpaceWait:
    """Tries statements of a database again while its disk is full.

    path: the database. log: takes a line when a wait begins, and one when it has ended.
    """

    def __init__(
        self,
        path: Path,
        log: Callable[[str], None],
        within_s: float = FULL_DISK_S,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._path = path
        self._log = log
        self._within_s = within_s
        self._sleep = sleep

    def store(self, statement: Callable[[], T]) -> T:
        """Returns what the statement returns. Raises sqlite3.Error for another problem, or
        if the disk stays full for ``within_s``, and CoschedError if a signal ends this
        process meanwhile."""
        try:
            return statement()
        except sqlite3.Error as error:
            if not is_full(error, self._path):
                raise
            self._log(
                f"{self._path}: {error}: waiting for space, at most {self._within_s:g} s"
            )
        with _ended_by_signals(self._path):
            return self._try_again(statement)

    def _try_again(self, statement: Callable[[], T]) -> T:
        began = time.monotonic()
        while True:
            self._sleep(POLL_S)
            waited_s = time.monotonic() - began
            try:
                stored = statement()
            except sqlite3.Error as error:
                if waited_s > self._within_s or not is_full(error, self._path):
                    raise
            else:
                self._log(f"{self._path}: stored after {waited_s:.1f} s")
                return stored


@contextlib.contextmanager
def _ended_by_signals(path: Path) -> Iterator[None]:
    """Makes a signal that ends this process end the wait, too: the loop of events stands
    still."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise CoschedError(f"{path}: its disk is full; ended by {signal_name(number)}")

    with handled(_ENDING, end):
        yield
