"""Runs the timer daemon of one node (cosched-timerd); the scheduler daemon starts it."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import select
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.cgroups.placement import place_tasks
from cosched.linux.priority import raise_daemon_priority
from cosched.linux.probe import attach
from cosched.node.records.log_file import join_log
from cosched.node.timer.guardian import Guardian
from cosched.node.timer.spare import scheduler_above, start_spare
from cosched.node.timer.timer import STDIN, TimerDaemon
from cosched.rundir.lock import DaemonLock, hold_daemon, locked
from cosched.rundir.paths import NodePaths
from cosched.service.loop import hold_back
from cosched.shm.objects import path_of
from cosched.shm.region import NodeRegion, survive_torn_regions
from cosched.start.streams import begin


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the daemon's options, which its manual page uses too."""
    options = argparse.ArgumentParser(
        prog="cosched-timerd",
        description="The timer daemon of one node. It reports the end of each slice to "
        "the scheduler daemon, which starts it. If the scheduler daemon dies, it gives "
        "all tasks normal shares.",
    )
    add = options.add_argument
    add("--run-dir", type=Path, required=True, help="the scheduler daemon's run directory")
    node = os.uname().nodename
    add("--node", default=node, help="the node's name  [default: the host's]")
    add("--class-scheduler", required=True, help="the scheduler daemon's class scheduler")
    add("--mode", default="proportional", help="proportional (the default) or strict")
    return options


def parse(arguments: list[str]) -> argparse.Namespace:
    return parser().parse_args(arguments)


def serve(options: argparse.Namespace) -> None:
    """Times slices; becomes the node's guardian if the scheduler daemon dies.

    A process in reserve does so if this one dies, too."""
    hold_back([signal.SIGTERM])  # the reserve is always dismissed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    paths = NodePaths(options.run_dir, options.node)
    above = os.getppid()
    with timer_locked(paths) as lock:
        if lock is None:
            raise CoschedError(f"node {paths.node}: another timer daemon is up")
        scheduler = scheduler_above(STDIN)
        daemons = [os.pidfd_open(os.getpid())]
        spare = start_spare(
            daemons if scheduler is None else [*daemons, scheduler],
            lock,
            paths.spare_lock,
            partial(restore_alone, options, paths, above),
        )
        try:
            time_slices(options, paths, above)
        finally:
            spare.dismiss()


def time_slices(options: argparse.Namespace, paths: NodePaths, above: int) -> None:
    """Times slices until SIGTERM; without a scheduler daemon it restores the node."""
    join_log(paths.log, "timer")
    raise_daemon_priority()
    survive_torn_regions()
    region: NodeRegion = NodeRegion.attach(paths.node_region)
    if region.owner != os.geteuid():
        raise CoschedError(f"shared memory {region.name}: belongs to uid {region.owner}")
    if TimerDaemon(region, paths.bell("@timer")).run():
        logging.warning("the scheduler daemon died: back to the kernel's shares")
        guard(options, paths, above)


def restore_alone(options: argparse.Namespace, paths: NodePaths, above: int) -> None:
    """Restores the node in place of a timer daemon that was killed with its scheduler.

    It does nothing if the node's shared memory was removed: no daemon left jobs then."""
    while path_of(paths.node_region).exists():
        with locked(paths.timer_lock) as mine:
            if mine:
                with contextlib.suppress(FileNotFoundError):  # the directory was removed
                    join_log(paths.log, "timer")
                raise_daemon_priority()
                survive_torn_regions()
                logging.warning("both daemons died: back to the kernel's shares")
                guard(options, paths, above)
                return
        await_end_of_holder(paths.timer_lock)


def await_end_of_holder(path: Path) -> None:
    """Waits for the end of the process that holds a lock: it may have been killed, too."""
    holder = hold_daemon(path)
    if holder is None:
        os.sched_yield()  # it has just begun, or has just ended
        return
    select.select([holder], [], [])
    os.close(holder)


def guard(options: argparse.Namespace, paths: NodePaths, above: int) -> None:
    """Runs the guardian. ``above``: the pid of the scheduler daemon that died."""
    classes = attach(paths.tag, options.class_scheduler, options.mode)
    Guardian(paths, place_tasks(classes, paths.tag), above).run()


@contextlib.contextmanager
def timer_locked(paths: NodePaths) -> Iterator[DaemonLock | None]:
    """Holds the timer daemon's lock; yields None if another process has it, or if the
    node's directory was removed."""
    lock = DaemonLock(paths.timer_lock)
    try:
        mine = lock.acquire()
    except FileNotFoundError:
        mine = False
    try:
        yield lock if mine else None
    finally:
        lock.release()


def main() -> None:
    """Runs ``cosched-timerd``."""
    begin()
    options = parse(sys.argv[1:])
    try:
        serve(options)
    except CoschedError as error:
        sys.exit(f"cosched-timerd: {error}")


if __name__ == "__main__":
    main()
