"""Keeps the names by which other processes find a running daemon: its lock, its sockets.

Programs that clean up /tmp remove old files, and users remove directories. Without its lock
file a daemon seems to be dead, and a second one would divide the same groups.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cosched.rundir.lock import DaemonLock
from cosched.service.listener import UnixListener

log = logging.getLogger(__name__)


class Presence:
    """The lock and the sockets of one daemon. replaced: another daemon has the lock."""

    def __init__(self, lock: DaemonLock, sockets: Sequence[UnixListener]) -> None:
        self.replaced = False
        self._lock = lock
        self._sockets = sockets

    def keep(self) -> bool:
        """Makes removed names again. Returns False if the daemon must end, because its
        directory was removed or another daemon has its lock."""
        try:
            if not self._has_lock():
                # cosched up has it while it asks this daemon. Another daemon that has it
                # also has the names of the sockets.
                self.replaced = any(one.is_replaced() for one in self._sockets)
                if self.replaced:
                    log.error("another daemon has this node: this one leaves all to it")
                return not self.replaced
            for one in self._sockets:
                path = one.renew()
                if path is not None:
                    log.warning("%s was removed: made again", path)
        except FileNotFoundError:
            log.error("%s was removed: the daemon ends", self._lock.path.parent)
            return False
        return True

    def _has_lock(self) -> bool:
        if self._lock.is_in_place():
            return True
        if not self._lock.renew():
            return False
        log.warning("%s was removed: made again", self._lock.path)
        return True
