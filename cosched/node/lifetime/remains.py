"""Lists and removes the files and shared memory of a node's running daemons.

Log, trace and history are not in the list: they stay."""

from __future__ import annotations

from cosched.core.errors import CoschedError
from cosched.node.tasks.left import named_regions
from cosched.rundir.lock import lock_holder
from cosched.rundir.paths import NodePaths
from cosched.shm.objects import remove_object


def remove_remains(paths: NodePaths) -> None:
    """Removes the remains after the node's daemons have ended.

    The caller holds the scheduler daemon's lock, so that no daemon starts meanwhile. The
    file of this lock is removed at its release.
    """
    if paths.bells.is_symlink():
        raise CoschedError(f"{paths.bells}: is a link; remove it")
    remove_regions(paths)
    for path in (*paths.bells.glob("*"), paths.register_socket, paths.control_socket):
        path.unlink(missing_ok=True)
    for lock in (paths.timer_lock, paths.spare_lock, paths.metrics_lock):
        # A guardian or a late metrics server keeps its lock until it ends.
        if lock_holder(lock) is None:
            lock.unlink(missing_ok=True)


def remove_regions(paths: NodePaths) -> None:
    """Removes the shared memory of the node, also what other users put there."""
    for name in (paths.node_region, *named_regions(paths)):
        remove_object(name)
