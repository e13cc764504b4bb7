"""Gives a job the standard input of a process on this machine, as its rank 0 reads it."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cosched.cluster.client import Client, NoDomain
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from cosched.cluster.answers import JobInfo

#: So much is read at once; no more is ahead of the job.
PIECE_BYTES = 1 << 18
#: How often a process in the background looks whether the terminal is its own now.
LOOK_S = 0.2
_STOP_WITHIN_S = 1.0


class Feeder:
    """Copies the descriptor ``source`` to a job's standard input, in a thread.

    It reads nothing before the job runs, and nothing after rank 0 has closed its input. It
    reads a terminal only while this process is in the foreground; SIGTTIN must be ignored.
    complain: takes one line about input that is not given.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        number: int,
        source: int,
        complain: Callable[[str], None],
    ) -> None:
        self._connect = connect
        self._number = number
        self._source = source
        self._complain = complain
        self._stopping = False
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops; a request that is under way is left to its end."""
        self._stopping = True
        os.close(self._waker)
        self._thread.join(_STOP_WITHIN_S)

    def _run(self) -> None:
        try:
            with contextlib.ExitStack() as stack:
                self._feed(stack)
        except CoschedError as error:
            if not self._stopping:
                self._complain(f"input is not given: {error}")
        finally:
            os.close(self._wake)

    def _feed(self, stack: contextlib.ExitStack) -> None:
        client = self._reconnect(stack)
        job: JobInfo | None = None
        data, at, ended = b"", 0, False
        while client is not None:
            try:
                if job is None:
                    job = client.until_running(self._number)
                if job["state"] != "running":
                    return
                if not data and not ended:
                    read = self._read()
                    if read is None:
                        return
                    data, ended = read, not read
                answer = client.give_input(job, at, data, last=ended)
                if ended or not answer["open"]:
                    return
                at, data = at + len(data), b""
            except NoDomain:  # such as while the controller restarts
                client = self._reconnect(stack)

    def _reconnect(self, stack: contextlib.ExitStack) -> Client | None:
        """Returns a new connection; None if it is too late for one."""
        while not self._stopping:
            with contextlib.suppress(NoDomain):
                return stack.enter_context(self._connect())
            time.sleep(LOOK_S)
        return None

    def _read(self) -> bytes | None:
        """Returns what is there, b"" at the end; None if this feeder must stop."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        pause = select.poll()
        pause.register(self._wake, select.POLLIN)
        poller.register(self._source, select.POLLIN)
        while True:
            if any(descriptor == self._wake for descriptor, _ in poller.poll()):
                return None
            try:
                if _in_foreground(self._source):
                    return os.read(self._source, PIECE_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno != errno.EIO or not os.isatty(self._source):
                    self._complain(f"standard input: {error.strerror}")
                    return b""
                # This process went to the background just now.
            if pause.poll(LOOK_S * 1000):
                return None


def _in_foreground(source: int) -> bool:
    """Returns whether a read of ``source`` does not stop this process."""
    if not os.isatty(source):
        return True
    try:
        return os.tcgetpgrp(source) == os.getpgrp()
    except OSError:  # it is not the terminal of this process
        return True
