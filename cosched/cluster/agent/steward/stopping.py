"""Stops all processes of a job on one node, and lets them run again.

A process that forks before its signal comes has a child that the next sweep finds. Stopped
processes fork no more, so the sweeps come to an end. Where a scheduler daemon shares the
CPUs, it gives the job no turns meanwhile, and does not continue the processes that it stops
itself for its shares. If the daemon ends, its guardian continues them. The kernel reports
that to their parent, which stops them again.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Mapping

from cosched.cluster.agent.steward.turns import Turns
from cosched.linux import proc
from cosched.linux.processes.descendants import describe_foreign
from cosched.linux.processes.signals import Delivery, send

#: More sweeps than this are needed only by processes that fork faster than they are found.
_SWEEPS_MOST = 1000


class Stopper:
    """The processes below this one, which has the rights of the job's user.

    environ: the variables of the tasks. warn: takes one line for the user.
    """

    def __init__(self, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._turns = Turns(environ, warn)
        self._kept: set[int] = set()  # stopped by the user before
        self._stopped = False

    def stop(self) -> str:
        """Stops all processes; returns why some may run on, or nothing."""
        if not self._stopped:
            self._kept = {pid for pid in _descendants() if proc.state(pid) == "T"}
            self._stopped = True
        self._turns.stop()
        known: set[int] = set()
        for _ in range(_SWEEPS_MOST):
            new = _descendants() - known
            if not new:
                return ""
            for pid in new:
                if send(pid, signal.SIGSTOP) is Delivery.FOREIGN:
                    return f"{describe_foreign(pid)} does not stop for the job's user"
            known |= new
        return "the job makes processes faster than they are stopped"

    def stop_again(self) -> str:
        """Stops all processes if another program has continued a child before ``resume``;
        returns why some may run on, or nothing. Call it after SIGCHLD."""
        continued = _child_was_continued()
        return self.stop() if continued and self._stopped else ""

    def resume(self) -> None:
        """Lets all processes run that ``stop`` has stopped."""
        if not self._stopped:
            return
        self._stopped = False
        self._turns.resume()
        for pid in _descendants() - self._kept:
            send(pid, signal.SIGCONT)


def _child_was_continued() -> bool:
    """Returns whether a child was continued since the last call."""
    found = False
    with contextlib.suppress(ChildProcessError):
        while os.waitid(os.P_ALL, 0, os.WCONTINUED | os.WNOHANG) is not None:
            found = True
    return found


def _descendants() -> set[int]:
    found: set[int] = set()
    parents = {os.getpid()}
    while parents:
        parents = set().union(*map(proc.children, parents)) - found
        found |= parents
    return found
