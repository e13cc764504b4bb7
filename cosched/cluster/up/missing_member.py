"""Finds the members of a domain that have gone, as after a kill.

Commands import this before they send a job, so it imports little.
"""

from __future__ import annotations

import os

from cosched.cluster.paths import DomainPaths
from cosched.core.names import member_of
from cosched.rundir.directories import is_listening


def lacks_a_member(paths: DomainPaths) -> bool:
    """Returns whether only one of the two members of a private domain is up. Another domain
    has its controller elsewhere, so the caller has to check that it is private."""
    if not paths.private_lock.exists():
        return False
    agent = is_listening(paths.agent_socket(member_of(os.uname().nodename)))
    return agent != is_listening(paths.controller_socket)
