"""What a node's daemons have on disk and in shared memory while they are up: the one list
of it, for whoever removes it. Log, trace and history are not in it: they stay."""

from __future__ import annotations

from cosched.node.jobs import left_regions
from cosched.node.service.lock import lock_holder
from cosched.shm.paths import NodePaths
from cosched.shm.region import unlink_region


def remove_remains(paths: NodePaths) -> None:
    """Removes it, once the node's daemons have ended.

    Whoever calls this has the scheduler daemon's lock, so that nobody starts others
    meanwhile; the lock's own file goes when it is released.
    """
    remove_regions(paths)
    for path in (*paths.bells.glob("*"), paths.register_socket, paths.control_socket):
        path.unlink(missing_ok=True)
    for lock in (paths.timer_lock, paths.metrics_lock):
        # A guardian has its own until it ends; so has a metrics server that is late.
        if lock_holder(lock) is None:
            lock.unlink(missing_ok=True)


def remove_regions(paths: NodePaths) -> None:
    """Removes what of it is not in the node's directory."""
    for name in (paths.node_region, *left_regions(paths)):
        unlink_region(name)
