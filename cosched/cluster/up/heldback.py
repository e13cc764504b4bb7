"""Finds a private domain that has lower limits than a command that needs it.

The command that started the domain may have had low hard limits or a high nice value. An
ordinary user's process cannot undo that for itself, but a later command can start the
domain again (``private.renew_private``). Commands import this before they send a job, so it
imports little.
"""

from __future__ import annotations

import os

from cosched.cluster.paths import DomainPaths
from cosched.linux.processes.limits import what_holds_back
from cosched.rundir.lock import lock_holder


def held_back(paths: DomainPaths) -> str:
    """Returns what holds back the agent of this user's private domain, but not this
    process: a few words; empty if nothing does."""
    if not paths.private_lock.exists():
        return ""
    if paths.directory.lstat().st_uid != os.geteuid():
        return ""
    agent = lock_holder(paths.agent_lock(os.uname().nodename))
    return "" if agent is None else what_holds_back(agent)
