"""Keeps scheduler daemons on a node whose agent serves one user, if no others are up there.

Jobs are then coscheduled, and users see them by ``cosched status``, ``top`` and ``history``
as those of ``cosched-run``. The daemons are private ones. A lease keeps them until the
agent ends. Without them jobs run, too, and share CPUs by the kernel alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cosched.core.errors import CoschedError, NoDaemon
from cosched.node.lifetime.spawn import PRIVATE, start_or_join
from cosched.node.sockets.client import ControlClient
from cosched.rundir.directories import SYSTEM_RUN_DIR, daemons_are_up
from cosched.rundir.paths import NodePaths

#: Daemons that end just now are found again, and then started.
_TRIES = 2


class OwnDaemons:
    """The scheduler daemons of a node. log: takes one line about daemons that do not
    start."""

    def __init__(self, paths: NodePaths, log: Callable[[str], None]) -> None:
        self._paths = paths
        self._log = log
        self._lease: ControlClient | None = None

    async def start(self) -> None:
        """Returns once daemons are up, or once they cannot be started, with one line in
        the log."""
        try:
            await asyncio.to_thread(self._start)
        except (CoschedError, OSError) as error:
            self._log(f"no scheduler daemons: {error}; jobs here are not coscheduled")

    def _start(self) -> None:
        if daemons_are_up(SYSTEM_RUN_DIR) and not daemons_are_up(self._paths.run_dir):
            return  # ranks find root's daemons
        for tries_left in reversed(range(_TRIES)):
            start_or_join(self._paths, [PRIVATE])
            try:
                control = ControlClient(self._paths)
                control.request("lease")
            except NoDaemon:
                if not tries_left:
                    raise
                continue
            self._lease = control
            return

    def close(self) -> None:
        """Ends the lease; the daemons end when they have no jobs."""
        if self._lease is not None:
            self._lease.close()
