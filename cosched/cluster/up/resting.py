"""Checks whether a private domain rests: it is down, and no job waits in it.

A quick command asks this, so the file imports neither all settings of a domain nor its
store.
"""

from __future__ import annotations

import os
from pathlib import Path

from cosched.cluster.database import STORE_REMEDY, has_row
from cosched.cluster.paths import DomainPaths
from cosched.core.names import PRIVATE
from cosched.documents import read_toml
from cosched.rundir.lock import is_held


def is_at_rest(run_dir: Path) -> bool:
    """Returns whether a private domain of this user is down, and no job waits in it. Raises
    CoschedError if its jobs or its domain.toml cannot be read."""
    paths = DomainPaths(run_dir)
    if not (paths.config.exists() and paths.store.exists()):
        return False
    if paths.directory.lstat().st_uid != os.geteuid():
        return False
    config = read_toml(paths.config)
    nodes = config.get("nodes")
    if config.get("name") != PRIVATE or not isinstance(nodes, dict):
        return False
    locks = (paths.controller_lock, *map(paths.agent_lock, nodes))
    return not any(map(is_held, locks)) and not has_row(
        paths.store, "jobs", "ended_ns IS NULL", STORE_REMEDY
    )
