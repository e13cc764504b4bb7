"""Has the scheduler daemon of a node give a suspended job no turns.

The job's region keeps the mode, also while no daemon is up. So the mode is written there
first, and then the daemon is asked. A new daemon opens its socket before it reads the
regions. So it either reads the new mode or gets the request.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.node.messages import Mode
from cosched.linux.here import this_node
from cosched.node.sockets.client import ControlClient
from cosched.rundir.directories import run_dir_to_ask
from cosched.rundir.paths import NodePaths, job_key
from cosched.shm.region import JobRegion

#: How long the scheduler daemon may take to answer.
_DAEMON_S = 2.0


class Turns:
    """The turns of one job on this node. This process has the rights of the job's user.

    environ: the variables of the tasks. warn: takes one line for the user.
    """

    def __init__(self, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._environ = environ
        self._warn = warn
        self._node: NodePaths | None = None  # as a daemon had it once
        self._stopped = False  # here, and not by the job's owner before

    def stop(self) -> None:
        """Gives the job no turns until ``resume``. Without a daemon, or before the job's
        tasks have registered, there is no need."""
        changed = self._change(Mode.SUSPENDED, "suspend")
        self._stopped = self._stopped or changed

    def resume(self) -> None:
        """Gives the job turns again, unless its owner suspended it before."""
        if self._stopped:
            self._stopped = False
            self._change(Mode.COSCHEDULED, "resume")

    def _change(self, mode: Mode, op: str) -> bool:
        """Returns whether the job had another mode."""
        name, node = self._environ.get("COSCHED_JOB"), self._find_node()
        if not name or node is None:
            return False
        key = job_key(os.geteuid(), name)
        written = _write(node, key, mode)
        return self._ask(node, key, op) or written

    def _find_node(self) -> NodePaths | None:
        """Returns the names of the node's daemons, and keeps them: a user's own directory
        is meant when none is up. Returns None if none was up yet."""
        if self._node is None:
            name = this_node(self._environ)
            try:
                run_dir = run_dir_to_ask(self._environ, os.geteuid(), name)
            except CoschedError:
                return None  # no daemon is up that the job's tasks would use
            found = NodePaths(run_dir, name)
            if found.control_socket.exists():
                self._node = found
        return self._node

    def _ask(self, node: NodePaths, key: str, op: str) -> bool:
        try:
            with ControlClient(node, _DAEMON_S) as daemon:
                answer = daemon.request(op, job=key)
        except NoDaemon:
            return False  # the next one reads the region
        except CoschedError as error:
            if op == "resume":
                self._warn(f"its share of the CPUs may stay small: {error}")
            return False
        return bool(answer.get("before") != answer.get("mode"))


def _write(node: NodePaths, key: str, mode: Mode) -> bool:
    try:
        region: JobRegion = JobRegion.attach(node.job_region(key), timeout_s=0)
    except CoschedError:
        return False  # no daemon can take the job over
    before = region.mode
    region.publish_mode(mode)
    region.close()
    return before is not mode
