"""Starts the controller of a domain again that was killed."""

from __future__ import annotations

import os

from cosched.cluster.config import load_config
from cosched.cluster.coupled.config import is_coupled
from cosched.cluster.paths import DomainPaths
from cosched.cluster.up.killed import was_killed
from cosched.cluster.up.members import start_controller
from cosched.cluster.up.places import controller_place
from cosched.node.service.lock import DaemonLock


def restart_controller(paths: DomainPaths) -> bool:
    """Starts the controller again if it was killed, and returns whether it did.

    Does so only on the controller's machine and for the user who started the domain.
    Another process, such as an init system, may have started it meanwhile.
    """
    if not was_killed(paths.controller_socket) or is_coupled(paths.config):
        return False
    place = controller_place(load_config(paths.config), paths.run_dir)
    if place is None or paths.directory.stat().st_uid != os.geteuid():
        return False
    lock = DaemonLock(paths.controller_lock)
    if not lock.acquire():
        return False
    lock.release()
    start_controller(place, paths).settle()
    return True
