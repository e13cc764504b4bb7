"""Manages the files of a lab and the lock that guards them.

    RUN_DIR/lab/lab.json    the state (state.py)
    RUN_DIR/lab/hosts       /etc/hosts of the nodes
    RUN_DIR/lab/agent       the launcher's agent, here or where programs may execute
    RUN_DIR/labN/           the daemons of node N

The lock is on the run directory itself, so it needs no file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.lab.agent import agent_places
from cosched.lab.plan import mark_prefix
from cosched.lab.state import read_state, state_path
from cosched.linux.namespaces import processes_inside
from cosched.linux.waiting import comes_true
from cosched.node.lifetime.remains import remove_regions
from cosched.rundir.lock import has_locked, is_at
from cosched.rundir.paths import NodePaths

LOCK_WITHIN_S = 2.0
LOCK_POLL_S = 0.02


@contextlib.contextmanager
def locked(
    run_dir: Path, *, create: bool = False, within_s: float = LOCK_WITHIN_S
) -> Iterator[None]:
    """Lets one lab command at a time use this run directory; ``create`` makes it.

    A command that holds the lock may remove the directory, so it can change in a wait.
    """
    deadline = time.monotonic() + within_s
    while True:
        if create:
            run_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(run_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _lock(descriptor, run_dir, deadline)
            if is_at(descriptor, run_dir):
                yield
                return
        finally:
            os.close(descriptor)


def _lock(descriptor: int, run_dir: Path, deadline: float) -> None:
    within_s = deadline - time.monotonic()
    if not comes_true(lambda: has_locked(descriptor), within_s, LOCK_POLL_S):
        raise CoschedError(
            f"another cosched lab command is at work on {run_dir}: wait until it is done"
        )


def remove_files(run_dir: Path) -> bool:
    """Removes all files of a lab. False if there was no lab."""
    directory = state_path(run_dir).parent
    for place in agent_places(run_dir, mark_prefix(run_dir)):
        place.unlink(missing_ok=True)
    if not directory.exists():
        return False
    try:
        state = read_state(run_dir)
    except CoschedError:
        state = None
    for node in state.nodes if state else ():
        _remove_node(NodePaths(run_dir, node.name))
    shutil.rmtree(directory)
    return True


def remove_if_empty(run_dir: Path) -> None:
    """Removes a run directory that held nothing but the lab."""
    with contextlib.suppress(OSError):
        run_dir.rmdir()


def _remove_node(paths: NodePaths) -> None:
    remove_regions(paths)
    shutil.rmtree(paths.directory, ignore_errors=True)


def forget_dead(run_dir: Path) -> None:
    """Removes a dead lab's files, if this user may and no process is left in it."""
    if os.geteuid() != 0 or processes_inside(mark_prefix(run_dir), ()):
        return
    with contextlib.suppress(CoschedError, OSError), locked(run_dir, within_s=0):
        state = read_state(run_dir)
        if state and not any(process.alive() for _, process in state.keepers):
            remove_files(run_dir)
            remove_if_empty(run_dir)
