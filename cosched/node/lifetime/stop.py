"""Stops a node's daemons from another process, and cleans up after killed ones.

Daemons that hand over leave their jobs to the next ones, as killed ones do.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from cosched.core.config.words import CLASS_SCHEDULERS
from cosched.core.errors import CoschedError, NoDaemon
from cosched.linux.cgroups.placement import place_tasks
from cosched.linux.classes import ClassScheduler
from cosched.linux.files.owners import acting_as_owner
from cosched.linux.pidfd import open_pidfd
from cosched.linux.probe import attach
from cosched.node.lifetime.handover import Patience, await_end, end_orphans
from cosched.node.lifetime.remains import remove_remains
from cosched.node.sockets.client import ControlClient
from cosched.node.tasks.left import find_left, left_regions
from cosched.rundir.lock import lock_holder, locked
from cosched.rundir.paths import NodePaths

#: Returns the class scheduler of a tag by its name; CoschedError if it does not work here.
Attach = Callable[[str, str], ClassScheduler]


def stop_node(
    paths: NodePaths, patience: Patience | None = None, attach: Attach = attach
) -> bool:
    """Stops the daemons and waits for their end; returns False if none was up.

    It also removes the files of killed daemons, except while a daemon holds the node's
    lock: that daemon is starting or ending. Root has only the rights of the directory's
    owner meanwhile.
    """
    with _owned(paths):
        return _stop(paths, patience or Patience(paths), attach)


@contextlib.contextmanager
def _owned(paths: NodePaths) -> Iterator[None]:
    """Lets root act as the owner of the node's directory within the block."""
    _ = paths.tag  # imports what the owner may be unable to read
    with acting_as_owner(paths.directory):
        yield


def _stop(paths: NodePaths, patience: Patience, attach: Attach) -> bool:
    waited = False
    while not _end_daemons(paths):
        if not paths.directory.exists():
            return waited
        with locked(paths.scheduler_lock) as mine:
            if mine:
                return _clean_dead_node(paths, attach) or waited
        waited = True
        patience.await_change()
    return True


def hand_over(paths: NodePaths) -> bool:
    """Ends the daemons, but keeps their jobs for the next ones; returns False if none
    answers."""
    with _owned(paths):
        return _end_daemons(paths, keep_jobs=True)


def _end_daemons(paths: NodePaths, *, keep_jobs: bool = False) -> bool:
    """Ends the daemons and waits for them; returns False if none answers."""
    with contextlib.ExitStack() as held:
        try:
            with ControlClient(paths) as client:
                daemon = open_pidfd(int(client.request("status")["pid"]))
                if daemon is not None:
                    held.callback(os.close, daemon)
                # It still answers, so the descriptor is the right one.
                client.request("down", keep_jobs=keep_jobs)
        except NoDaemon:
            return False
        if daemon is not None:
            await_end(daemon, f"node {paths.node}: the scheduler daemon")
        return True


def free_jobs(paths: NodePaths, attach: Attach = attach) -> bool:
    """Gives the jobs of killed daemons normal shares; returns False if there are none.

    Later daemons can take these jobs over, and systemd can start one in the group of its
    unit. CoschedError if daemons are up."""
    with _owned(paths):
        return _free(paths, attach)


def _free(paths: NodePaths, attach: Attach) -> bool:
    holder = lock_holder(paths.scheduler_lock)
    if holder is not None:
        raise CoschedError(
            f"node {paths.node}: its daemons are up (pid {holder}) and keep their jobs; "
            "nothing to do"
        )
    left = bool(left_regions(paths))
    with locked(paths.scheduler_lock) as mine:
        if mine:  # otherwise a daemon has begun, which takes the jobs over
            # A live guardian does the same.
            if left and lock_holder(paths.timer_lock) is None:
                _restore_shares(paths, attach, keep=True)
            _vacate(paths, attach)
    return left


def _clean_dead_node(paths: NodePaths, attach: Attach) -> bool:
    """Cleans up after killed daemons; returns False if they left nothing.

    The caller holds their lock."""
    left = (
        lock_holder(paths.timer_lock) is not None
        or bool(left_regions(paths))
        or paths.control_socket.exists()
    )
    end_orphans(paths)
    _restore_shares(paths, attach, keep=False)
    remove_remains(paths)
    return left


def _vacate(paths: NodePaths, attach: Attach) -> None:
    """Lets the next daemon start in the group around the classes."""
    with contextlib.ExitStack() as steps:  # a failed step does not skip the others
        for name in CLASS_SCHEDULERS:
            with contextlib.suppress(CoschedError):  # there are no such classes here
                classes = place_tasks(attach(paths.tag, name), paths.tag)
                steps.callback(classes.vacate)


def _restore_shares(paths: NodePaths, attach: Attach, *, keep: bool) -> None:
    """Wakes every task and gives every class the kernel's normal shares.

    ``keep``: the classes stay for a daemon that takes their jobs over."""
    pids, suspended = _release_tasks(paths)
    # The last step runs first; a failed step does not skip the others.
    with contextlib.ExitStack() as steps:
        for name in reversed(CLASS_SCHEDULERS):
            try:
                classes = place_tasks(attach(paths.tag, name), paths.tag)
            except CoschedError:
                continue  # this machine has no such classes, so none are left
            if not keep:
                steps.callback(classes.close)
            for key in suspended:
                steps.callback(classes.thaw, key)
            steps.callback(classes.restore, pids)


def _release_tasks(paths: NodePaths) -> tuple[dict[str, dict[int, int]], list[str]]:
    """Marks running tasks as scheduled.

    Returns their pids and start times by job, and the suspended jobs."""
    found: dict[str, dict[int, int]] = {}
    suspended: list[str] = []
    for job in find_left(paths)[0]:
        found[job.key] = job.starts
        if job.region.mode.stops:
            suspended.append(job.key)
        for task in job.tasks.values():
            os.close(task.pidfd)
        job.region.let_run_freely()
        job.region.close()
    return found, suspended
