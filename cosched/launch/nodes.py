"""Checks the daemons of a job's nodes: they must be up and the job's name free.

If no daemon runs on this node, a private pair is started. It lives as long as a client
holds a lease or a task is left. The functions that connect and start are passed in, so this
module does not depend on sockets and daemons.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from cosched.core.errors import CoschedError, NoDaemon
from cosched.core.units import format_bytes
from cosched.linux.processes.limits import what_holds_back
from cosched.rundir.paths import NodePaths

#: Private pairs that a launcher starts or joins: the first one may be about to end.
STARTS_MOST = 2


class JobRefused(CoschedError):
    """The job must not start, not even without coscheduling."""


class JobNameTaken(JobRefused):
    """The user already has a job of that name on one of the nodes."""


class TooManyJobs(JobRefused):
    """The user has as many jobs on a node as the operator allows."""


class TooLarge(JobRefused):
    """The job needs more memory than one of the nodes has."""


class Control(Protocol):
    """One connection to a node's scheduler daemon."""

    def request(self, op: str, **arguments: Any) -> Mapping[str, Any]: ...

    def close(self) -> None: ...


Connect = Callable[[NodePaths], Control | None]
"""Opens a connection; None if no daemon answers."""
Start = Callable[[NodePaths], object]
"""Starts a private pair of daemons; CoschedError if it cannot start."""


def check_nodes(
    nodes: Iterable[NodePaths],
    connect: Connect,
    *,
    uid: int,
    job: str,
    most: int | None = None,
    need_bytes: int = 0,
    there: str | None = None,
) -> list[NodePaths]:
    """Checks every node that has a daemon; returns the others. JobRefused if the job
    cannot run on one of them.

    The user must have no job of that name and fewer than ``most`` jobs there. The node
    needs ``need_bytes`` of memory. there: the node where the job itself may be already.
    """
    without = []
    for paths in nodes:
        control = connect(paths)
        if control is None:
            without.append(paths)
            continue
        try:
            status = control.request("status")
            _check_jobs(status, paths.node, uid, job, most, there=paths.node == there)
            _check_memory(status, paths.node, need_bytes)
        finally:
            control.close()
    return without


def lease_node(
    paths: NodePaths,
    connect: Connect,
    start: Start,
    *,
    uid: int,
    job: str,
    most: int | None = None,
    need_bytes: int = 0,
    there: bool = False,
) -> Control:
    """Returns a lease on this node's daemons; starts a private pair if none is up.

    The lease ends when the connection is closed. JobRefused if the name is taken, the user
    has ``most`` jobs here, or the node has too little memory. Any other CoschedError if
    daemons cannot be started here. there: the job itself may be here already.
    """

    def lease(control: Control) -> Control:
        try:
            control.request("lease")
            status = control.request("status")
            _check_jobs(status, paths.node, uid, job, most, there=there)
            _check_memory(status, paths.node, need_bytes)
        except BaseException:
            control.close()
            raise
        return control

    for starts_left in range(STARTS_MOST, -1, -1):
        control = connect(paths)
        if control is not None:
            with contextlib.suppress(NoDaemon):  # private daemons that are just ending
                if not _retires(control):
                    return lease(control)
        if starts_left:
            start(paths)
    raise CoschedError(f"no daemon answers at {paths.control_socket}")


def _retires(control: Control) -> bool:
    """Ends a private pair without jobs that was started with lower limits than this process
    has; returns whether it ends."""
    try:
        status = control.request("status")
        # Root's daemons stay, and refuse to answer users about that.
        held_back = status.get("private") and what_holds_back(status.get("pid", 0))
        retires = bool(held_back) and control.request("retire")["retired"]
    except BaseException:
        control.close()
        raise
    if retires:
        control.close()
    return bool(retires)


def _check_jobs(
    status: Mapping[str, Any],
    node: str,
    uid: int,
    job: str,
    most: int | None,
    *,
    there: bool = False,
) -> None:
    present = [*status.get("jobs", ()), *status.get("waiting", ())]
    names = [other.get("name") for other in present if other.get("uid") == uid]
    if there and job in names:
        names.remove(job)
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
