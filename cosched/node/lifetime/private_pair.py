"""Starts private daemons in a process of its own, while this one goes on.

cosched-run does so before most of its imports, so this imports next to nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NoReturn

from cosched.core.errors import CoschedError
from cosched.rundir.paths import NodePaths


class StartingPair:
    """A private pair that a child of this process starts."""

    def __init__(self, paths: NodePaths, child: int, report: int) -> None:
        self._paths = paths
        self._child = child
        self._report = report

    def wait(self) -> str:
        """Returns the greeting of the daemons once they are up, and the child has ended.
        Raises CoschedError if they cannot start here. Call it once."""
        with os.fdopen(self._report, encoding="utf-8", errors="surrogateescape") as pipe:
            said = pipe.read()
        status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        if status != 0:
            raise CoschedError(
                said or f"node {self._paths.node}: its start ended ({status})"
            )
        return said

    def let_be(self) -> None:
        """Waits until the child has ended, whatever it reports."""
        with contextlib.suppress(CoschedError):
            self.wait()


def begin_private_pair(paths: NodePaths) -> StartingPair:
    """Begins to start daemons for one user's jobs as the configuration has them, unless
    another process starts them.

    They are no children of this process, which waits for all its children at its end.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _report(lambda: _start(paths), write_end)
    os.close(write_end)
    return StartingPair(paths, child, read_end)


def start_private_pair(paths: NodePaths) -> str:
    """Starts them and returns their greeting. CoschedError if they cannot start here."""
    return begin_private_pair(paths).wait()


def _start(paths: NodePaths) -> str:
    from cosched.linux.files.owners import refuse_foreign
    from cosched.node.lifetime.spawn import PRIVATE, start_or_join  # only the child does

    refuse_foreign(paths.run_dir)
    paths.check_length()
    absolute = NodePaths(paths.run_dir.absolute(), paths.node)
    return start_or_join(absolute, [PRIVATE])


def _report(start: Callable[[], str], descriptor: int) -> NoReturn:
    """Writes the greeting, or the error, and ends this process."""
    status = 1
    try:
        try:
            said, status = start(), 0
        except (CoschedError, OSError) as error:
            said = str(error)
        os.write(descriptor, said.encode("utf-8", "surrogateescape"))
    finally:
        os._exit(status)
