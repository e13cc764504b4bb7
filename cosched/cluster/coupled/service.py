"""Runs the controller of a domain whose jobs Slurm queues."""

from __future__ import annotations

import asyncio
import pwd
import signal
from collections.abc import Mapping
from typing import Any

from cosched.cluster.answers import ReloadInfo
from cosched.cluster.coupled.config import CoupledConfig, load_coupled
from cosched.cluster.coupled.reloading import compare
from cosched.cluster.coupled.window import Window
from cosched.cluster.coupling.metrics import serve_metrics
from cosched.cluster.coupling.pairs import open_pairs
from cosched.cluster.engines.slurm.engine import SlurmEngine
from cosched.cluster.engines.slurm.steering import Names, SlurmSteering
from cosched.cluster.member import Log, Ready, first_error, run_member
from cosched.cluster.paths import DomainPaths
from cosched.core.errors import CoschedError
from cosched.node.service.lock import DaemonLock


def serve_coupled(paths: DomainPaths, environ: Mapping[str, str]) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    environ: the environment of Slurm's commands.
    """
    config = load_coupled(paths.config)
    lock = DaemonLock(paths.controller_lock)
    if not lock.acquire():
        raise CoschedError(f"{paths.run_dir}: another controller is up")
    try:

        async def run(ready: Ready, log: Log) -> None:
            await _run(paths, config, environ, ready, log)

        run_member(run)
    finally:
        lock.release()


async def _run(
    paths: DomainPaths,
    config: CoupledConfig,
    environ: Mapping[str, str],
    ready: Ready,
    log: Log,
) -> None:
    pairs = open_pairs(config, paths, log)
    names = Names(config.name, tuple(config.domains))
    users = {0, uid_of(config.slurm.user)}
    engine = SlurmSteering(names, config.slurm, paths.gate_socket, users, environ, log)
    domain = SlurmEngine(config, engine, pairs, log)
    stopped = asyncio.Event()

    def reload() -> ReloadInfo:
        used, change = compare(domain.config, load_coupled(paths.config))
        domain.configure(used)
        log(f"{paths.config}: {change['text']}")
        return change

    def reload_for_signal() -> None:
        try:
            reload()
        except CoschedError as error:
            log(f"not taken: {error}")

    window = Window(paths.controller_socket, pairs, stopped.set, reload, log)
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_for_signal)
    pairs.listen()
    end_metrics = serve_metrics(config.metrics, pairs.figures)
    try:
        await window.open()
        work: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(engine.run(domain.report)),
            asyncio.ensure_future(pairs.receive(domain.driver.receive)),
            asyncio.ensure_future(stopped.wait()),
            first_error(),  # it must not act on a state that it could not store
        ]
        ready()
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for each in work:
                if each.done():
                    await each
        finally:
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await window.close()
            domain.driver.close()
    finally:
        end_metrics()
        pairs.close()


def uid_of(user: str) -> int:
    """Returns the number of SlurmUser. Raises CoschedError if there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise CoschedError(f"slurm.user: there is no user '{user}' here") from None
