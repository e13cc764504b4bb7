"""Stops all processes of a job on one node, and lets them run again.

A process that forks before its signal comes has a child that the next sweep finds. Stopped
processes fork no more, so the sweeps come to an end. Where a scheduler daemon shares the
CPUs, it takes the job out of its class meanwhile: it gives the job no turns, and does not
continue the processes that it stops itself for its shares.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from cosched.core.errors import CoschedError
from cosched.linux import proc
from cosched.linux.here import this_node
from cosched.linux.processes.descendants import describe_foreign
from cosched.linux.processes.signals import Delivery, send
from cosched.node.sockets.client import ControlClient
from cosched.rundir.directories import run_dir_to_ask
from cosched.rundir.paths import NodePaths, job_key

#: More sweeps than this are needed only by processes that fork faster than they are found.
_SWEEPS_MOST = 1000
#: How long the scheduler daemon may take to answer.
_DAEMON_S = 2.0


class Stopper:
    """The processes below this one, which has the rights of the job's user.

    environ: the variables of the tasks. warn: takes one line for the user.
    """

    def __init__(self, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._environ = environ
        self._warn = warn
        self._kept: set[int] = set()  # stopped by the user before
        self._suspended = False  # the scheduler daemon did that for us
        self._stopped = False

    def stop(self) -> str:
        """Stops all processes; returns why some may run on, or nothing."""
        if not self._stopped:
            self._kept = {pid for pid in _descendants() if proc.state(pid) == "T"}
            self._stopped = True
        self._suspended = self._ask_daemon("suspend") or self._suspended
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

    def resume(self) -> None:
        """Lets all processes run that ``stop`` has stopped."""
        if not self._stopped:
            return
        self._stopped = False
        if self._suspended:
            self._suspended = False
            self._ask_daemon("resume")
        for pid in _descendants() - self._kept:
            send(pid, signal.SIGCONT)

    def _ask_daemon(self, op: str) -> bool:
        """Asks the node's scheduler daemon about the job; returns whether its mode changed.
        Without a daemon, or before the job's tasks have registered, there is no need."""
        name = self._environ.get("COSCHED_JOB")
        if not name:
            return False
        uid, node = os.geteuid(), this_node(self._environ)
        try:
            paths = NodePaths(run_dir_to_ask(self._environ, uid, node), node)
            if not paths.control_socket.exists():
                return False
            with ControlClient(paths, _DAEMON_S) as daemon:
                answer = daemon.request(op, job=job_key(uid, name))
        except CoschedError as error:
            if op == "resume":
                self._warn(f"its share of the CPUs may stay small: {error}")
            return False
        return answer.get("before") != answer.get("mode")


def _descendants() -> set[int]:
    found: set[int] = set()
    parents = {os.getpid()}
    while parents:
        parents = set().union(*map(proc.children, parents)) - found
        found |= parents
    return found
