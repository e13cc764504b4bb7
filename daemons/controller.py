"""Runs the controller of a domain (cosched-controller): queue, nodes and job store."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path

from cosched.cluster.controller.controller import Controller
from cosched.cluster.coupled.service import serve_coupled
from cosched.cluster.keys import load_keys
from cosched.cluster.member import Log, Ready, run_member
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.config.domain import load_config
from cosched.config.slurm import is_coupled
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.node.service.lock import DaemonLock
from cosched.node.service.run_dir import add_run_dir, chosen_run_dir
from cosched.start.streams import begin

#: How long the controller waits for the end of its companion when the domain has ended.
COMPANION_ENDS_WITHIN_S = 10.0


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the controller's options, which its manual page uses too."""
    options = argparse.ArgumentParser(
        prog="cosched-controller",
        description="The controller of a domain. It queues the jobs, chooses their nodes "
        "and stores them. It reads domain.toml and its keys in the directory domain of the "
        "run directory. SIGHUP lets it read domain.toml again. Users start it with "
        "cosched cluster up, init systems with cosched-controller.",
        epilog="example: cosched-controller --run-dir /run/cosched",
    )
    add_run_dir(options)
    options.add_argument(
        "--idle", type=float, metavar="S", help="end when no job came for S seconds"
    )
    options.add_argument(
        "--ending", action="store_true", help="start no job: the domain is about to end"
    )
    options.add_argument(
        "--with",
        type=int,
        dest="companion",
        metavar="PID",
        help="end when the process PID has ended",
    )
    return options


def serve(
    run_dir: Path,
    idle_s: float | None,
    companion: int | None = None,
    *,
    ending: bool = False,
) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    companion: a process with which the domain ends. ending: no job starts.
    """
    paths = DomainPaths(run_dir)
    if is_coupled(paths.config):
        serve_coupled(paths, os.environ)
        return
    config = load_config(paths.config)
    keys = load_keys(paths.keys, CONTROLLER, config.members)
    lock = DaemonLock(paths.controller_lock)
    if not lock.acquire():
        raise CoschedError(f"{run_dir}: another controller is up")
    try:
        store = JobStore(paths.store, config.node_names)
        try:

            async def run(ready: Ready, log: Log) -> None:
                controller = Controller(
                    config, keys, paths, store, log, idle_s, ending=ending
                )
                if companion is None:
                    await controller.run(ready)
                    return
                ended = _end_with(companion, controller, log)
                await controller.run(ready)
                await asyncio.wait({ended}, timeout=COMPANION_ENDS_WITHIN_S)

            run_member(run)
        finally:
            store.close()
    finally:
        lock.release()


def _end_with(pid: int, controller: Controller, log: Log) -> asyncio.Task[None]:
    """Ends the domain when the process ends. Returns a task that is done then. Raises
    CoschedError if it has ended."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        raise CoschedError(f"process {pid} has ended already") from None
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        ended.set_result(None)

    async def watch() -> None:
        await ended
        await controller.end_without_nodes(f"process {pid} has ended")

    loop.add_reader(pidfd, end)
    return loop.create_task(watch())


def main() -> None:
    """Runs the controller."""
    begin()
    options = parser().parse_args()
    try:
        run_dir = chosen_run_dir(options.run_dir, os.environ)
        serve(run_dir, options.idle, options.companion, ending=options.ending)
    except CoschedError as error:
        raise SystemExit(f"cosched-controller: {error}") from None


if __name__ == "__main__":
    main()
