"""Finds the members of a domain that have gone, as after a kill.

Commands import this before they send a job, so it imports little.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from cosched.cluster.paths import DomainPaths

_ANSWERS_WITHIN_S = 5.0


def is_listening(path: Path) -> bool:
    """Returns whether a process listens at a Unix socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWERS_WITHIN_S)
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True


def lacks_a_member(paths: DomainPaths) -> bool:
    """Returns whether only one of the two members of a private domain is up. Another domain
    has its controller elsewhere, so the caller has to check that it is private."""
    if not paths.private_lock.exists():
        return False
    agent = is_listening(paths.agent_socket(os.uname().nodename))
    return agent != is_listening(paths.controller_socket)
