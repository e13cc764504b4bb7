"""Starts child processes of a daemon, and restarts a kept one when it ends.

The standard input of a child ends with its daemon.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

from cosched.core.complaints import Complaints
from cosched.core.named_tuples import NamedTuple
from cosched.service.loop import Loop
from cosched.start.own_command import own_command

log = logging.getLogger(__name__)

#: The most delays before a restart. After a longer life a child counts as the first.
MOST_DELAYS = 50


class Child(NamedTuple):
    """A child process of a daemon."""

    process: subprocess.Popen[bytes]  #: the running child
    pipe: int  #: the daemon's end of the child's input, a descriptor
    pidfd: int  #: a descriptor that is readable when the child ends

    def close(self) -> None:
        """Closes both descriptors."""
        os.close(self.pidfd)
        os.close(self.pipe)


def start_child(
    module: str,
    arguments: Sequence[str],
    *,
    stdout: int | None = None,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Runs a module of cosched as a process; an OSError leaves nothing behind."""
    with contextlib.ExitStack() as undo:
        read_end, pipe = os.pipe2(os.O_CLOEXEC)
        undo.callback(os.close, pipe)
        os.set_blocking(pipe, False)
        try:
            process = subprocess.Popen(
                [*own_command(module), *arguments],
                stdin=read_end,
                stdout=stdout,
                pass_fds=pass_fds,
                cwd="/",
            )
        finally:
            os.close(read_end)
        undo.enter_context(process)  # closes its output, and waits
        undo.callback(process.kill)
        pidfd = os.pidfd_open(process.pid)
        undo.pop_all()
    return Child(process, pipe, pidfd)


class KeptChild(ABC):
    """Starts a child and restarts it when it ends.

    name: the child's name in the log. delay_ns: the delay before the first restart. Each
    further restart in a row, and each try that fails, adds one more delay. So a broken
    child does not load the node, and it does not fill the log. restarts: how often it
    ended.
    """

    def __init__(self, loop: Loop, name: str, delay_ns: int) -> None:
        self._loop = loop
        self._name = name
        self._delay_ns = delay_ns
        self._child: Child | None = None
        self._stopping = False
        self._started_ns = 0
        self._in_a_row = 0
        self._complaints = Complaints(log.warning, time.monotonic_ns)
        self.restarts = 0

    @abstractmethod
    def _launch(self) -> Child:
        """Starts the child once; may raise OSError."""

    @property
    def pid(self) -> int | None:
        """Returns the child's pid while it runs."""
        return self._child.process.pid if self._child else None

    @property
    def pipe(self) -> int | None:
        """Returns the daemon's end of the child's standard input while it runs."""
        return self._child.pipe if self._child else None

    def start(self) -> None:
        """Starts the first child; raises OSError if that fails. Later errors are logged."""
        self._child = self._launch()
        self._started_ns = time.monotonic_ns()
        self._loop.watch(self._child.pidfd, self._ended)

    def stop(self) -> None:
        """Ends the child and waits for its end."""
        self._stopping = True
        if self._child is not None:
            self._child.process.terminate()
            self._forget(self._child)

    def _ended(self) -> None:
        assert self._child is not None
        status = self._forget(self._child)
        lived_ns = time.monotonic_ns() - self._started_ns
        self._in_a_row = self._in_a_row if lived_ns < MOST_DELAYS * self._delay_ns else 0
        self.restarts += 1
        what = f"the {self._name} has ended and is started again"
        self._complaints.about(None, what, f"status {status}")
        self._start_later()

    def _start_later(self) -> None:
        self._in_a_row += 1
        delay_ns = min(self._in_a_row, MOST_DELAYS) * self._delay_ns
        self._loop.call_at(time.monotonic_ns() + delay_ns, self._start_again)

    def _start_again(self) -> None:
        if self._stopping:
            return
        try:
            self.start()
        except OSError as error:
            self._complaints.about(None, f"no {self._name} for now", str(error))
            self._start_later()

    def _forget(self, child: Child) -> int:
        """Waits for its end and returns its status."""
        # Before its pipe is closed: otherwise a timer daemon would become the guardian.
        status = child.process.wait()
        self._child = None
        self._loop.unwatch(child.pidfd)
        child.close()
        return status
