"""Runs the controller of a domain (cosched-controller): queue, nodes and job store."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping
from contextlib import closing

from cosched.cluster.controller.controller import Controller
from cosched.cluster.engines.native.engine import NativeEngine
from cosched.cluster.keys import load_keys
from cosched.cluster.member import Log, Make, Ready, run_member
from cosched.cluster.paths import DomainPaths
from cosched.cluster.store import JobStore
from cosched.config.domain import load_config
from cosched.config.slurm import is_coupled
from cosched.core.errors import CoschedError
from cosched.core.names import CONTROLLER
from cosched.linux.files.owners import refuse_open
from cosched.rundir.option import add_run_dir, chosen_run_dir
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


def serve(options: argparse.Namespace, environ: Mapping[str, str]) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    environ: names the run directory if the options do not; for Slurm's commands.
    """
    paths = DomainPaths(chosen_run_dir(options.run_dir, environ))
    if is_coupled(paths.config):
        from cosched.cluster.controller.of_slurm import (
            steer_slurm,  # few have one
        )

        make = steer_slurm(paths, environ)
    else:
        make = queue_jobs(paths, options)
    run_member(make, paths.controller_lock, f"{paths.run_dir}: another controller is up")


def queue_jobs(paths: DomainPaths, options: argparse.Namespace) -> Make:
    """Returns the work of a controller that queues the jobs of its domain."""
    refuse_open(paths.directory, paths.config, paths.keys)
    config = load_config(paths.config)
    keys = load_keys(paths.keys, CONTROLLER, config.members)

    async def run(ready: Ready, log: Log) -> None:
        with closing(JobStore(paths.store, config.node_names)) as store:
            engine = NativeEngine(
                config, keys, paths, store, log, options.idle, ending=options.ending
            )
            controller = Controller(engine, paths, log)
            if options.companion is None:
                await controller.run(ready)
                return
            ended = _end_with(options.companion, engine)
            await controller.run(ready)
            await asyncio.wait({ended}, timeout=COMPANION_ENDS_WITHIN_S)

    return run


def _end_with(pid: int, engine: NativeEngine) -> asyncio.Task[None]:
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
        await engine.end_without_nodes(f"process {pid} has ended")

    loop.add_reader(pidfd, end)
    return loop.create_task(watch())


def main() -> None:
    """Runs the controller."""
    begin()
    options = parser().parse_args()
    try:
        serve(options, os.environ)
    except CoschedError as error:
        raise SystemExit(f"cosched-controller: {error}") from None


if __name__ == "__main__":
    main()
