"""Finds the members of a domain that were killed: they leave their sockets.

Commands import this before they send a job, so it imports little.
"""

from __future__ import annotations

import errno
import socket
from pathlib import Path

from cosched.cluster.paths import DomainPaths


def is_listening(path: Path) -> bool:
    """Returns whether a process listens at a Unix socket."""
    return _connect(path) == 0


def was_killed(path: Path) -> bool:
    """Returns whether a Unix socket is there at which no process listens."""
    return _connect(path) == errno.ECONNREFUSED


def has_killed_member(paths: DomainPaths, node: str) -> bool:
    """Returns whether the controller or the agent of a private domain was killed. Another
    domain may have its controller on another machine."""
    sockets = (paths.controller_socket, paths.agent_socket(node))
    return paths.private_lock.exists() and any(map(was_killed, sockets))


def _connect(path: Path) -> int:
    with socket.socket(socket.AF_UNIX) as connection:
        return connection.connect_ex(str(path))
