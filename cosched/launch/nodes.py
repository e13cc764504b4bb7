"""The daemons of the nodes that a job runs on: are they up, and is the name free?

Where none runs on this node, a private pair is started: it lives as long as somebody
holds a lease or a task is left. Who connects is passed in, so that this module knows
nothing of sockets.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.units import format_bytes
from cosched.shm.paths import NodePaths

START_TIMEOUT_S = 30
_COSCHED = "from cosched.cli.main import main; main()"


class JobRefused(CoschedError):
    """The job must not start; to run it uncoordinated would not help."""


class JobNameTaken(JobRefused):
    """This user has a job of that name on one of the nodes."""


class TooManyJobs(JobRefused):
    """This user has as many jobs on one of the nodes as the operator allows."""


class TooLarge(JobRefused):
    """The job needs more memory than one of the nodes has."""


class Control(Protocol):
    """One connection to a node's scheduler daemon."""

    def request(self, op: str, **arguments: Any) -> Mapping[str, Any]: ...

    def close(self) -> None: ...


Connect = Callable[[NodePaths], Control | None]
"""Opens a connection; None where no daemon answers."""


def check_nodes(
    nodes: Iterable[NodePaths],
    connect: Connect,
    *,
    uid: int,
    job: str,
    start_hint: str,
    most: int | None = None,
    need_bytes: int = 0,
) -> None:
    """CoschedError unless every node's daemon is up and knows no such job of this user,
    and fewer than ``most`` of his jobs; or if a node has less memory than ``need_bytes``.

    ``start_hint`` is the command that starts a daemon; ``{node}`` in it is its node.
    """
    for paths in nodes:
        control = connect(paths)
        if control is None:
            raise CoschedError(
                f"node {paths.node}: no daemon answers at {paths.control_socket}; "
                f"run: {start_hint.format(node=paths.node)}"
            )
        try:
            status = control.request("status")
            _check_jobs(status, paths.node, uid, job, most)
            _check_memory(status, paths.node, need_bytes)
        finally:
            control.close()


def lease_node(
    paths: NodePaths,
    connect: Connect,
    *,
    uid: int,
    job: str,
    most: int | None = None,
    need_bytes: int = 0,
) -> Control:
    """A lease on this node's daemons; starts a private pair where none is up.

    It holds until the connection is closed. JobRefused if the user should choose another
    name, has ``most`` jobs here, or needs more memory than the node has; any other
    CoschedError if there is no way to have daemons here.
    """

    def lease(control: Control) -> Control:
        try:
            control.request("lease")
            status = control.request("status")
            _check_jobs(status, paths.node, uid, job, most)
            _check_memory(status, paths.node, need_bytes)
        except BaseException:
            control.close()
            raise
        return control

    control = connect(paths)
    if control is not None:
        with contextlib.suppress(NoDaemon):  # private daemons that were just ending
            return lease(control)
    start_private_pair(paths)
    control = connect(paths)
    if control is None:
        raise CoschedError(f"no daemon answers at {paths.control_socket}")
    return lease(control)


def start_private_pair(paths: NodePaths) -> None:
    """Runs ``cosched up --private``; CoschedError in its own words if it fails."""
    command = [sys.executable, "-c", _COSCHED, "up", "--private", "--node", paths.node]
    with os.fdopen(os.memfd_create("cosched-up"), "w+", errors="replace") as said:
        try:
            # From "/", since Python looks for modules in the working directory first. A
            # file takes the output: the daemons might keep a pipe open.
            status = subprocess.run(
                [*command, "--run-dir", os.path.abspath(paths.run_dir)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=START_TIMEOUT_S,
                check=False,
                cwd="/",
            ).returncode
        except subprocess.TimeoutExpired:
            raise CoschedError(f"not ready after {START_TIMEOUT_S} s") from None
        if status != 0:
            said.seek(0)
            lines = said.read().strip().splitlines()
            last = lines[-1] if lines else f"exit status {status}"
            raise CoschedError(last.removeprefix("cosched: "))


def _check_jobs(
    status: Mapping[str, Any], node: str, uid: int, job: str, most: int | None
) -> None:
    present = [*status.get("jobs", ()), *status.get("waiting", ())]
    names = [other.get("name") for other in present if other.get("uid") == uid]
    if job in names:
        raise JobNameTaken(
            f"job name '{job}' is taken on node {node}; choose another with --job"
        )
    if most is not None and len(names) >= most:
        raise TooManyJobs(
            f"{len(names)} jobs of yours run on node {node}; more are not allowed at once"
        )


def _check_memory(status: Mapping[str, Any], node: str, need_bytes: int) -> None:
    memory = status.get("memory", {})
    total = memory.get("total_bytes", 0)
    if memory.get("guarded") and need_bytes > total:
        raise TooLarge(
            f"the job needs {format_bytes(need_bytes)}, node {node} has "
            f"{format_bytes(total)}; give it other nodes, or state less with --memory"
        )
