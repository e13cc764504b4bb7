"""Runs the controller of a domain whose jobs Slurm queues."""

from __future__ import annotations

import asyncio
import pwd
import signal
from collections.abc import Callable, Mapping
from typing import Any

from cosched.cluster.answers import ReloadInfo, reload_info
from cosched.cluster.coupled.domain import CoupledDomain, now_ns
from cosched.cluster.coupled.mail import connect
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.coupled.metrics import Figures, figures, serve_metrics
from cosched.cluster.coupled.window import Window
from cosched.cluster.engines.slurm.engine import Names, SlurmEngine
from cosched.cluster.keys import make_keys
from cosched.cluster.member import Log, Ready, first_error, run_member
from cosched.cluster.paths import DomainPaths
from cosched.config.slurm import CoupledConfig, coupled_config, load_coupled
from cosched.core.config.tables import reload
from cosched.core.errors import CoschedError
from cosched.node.service.lock import DaemonLock


def serve_coupled(paths: DomainPaths, environ: Mapping[str, str]) -> None:
    """Serves until a signal ends it. Raises CoschedError if it cannot.

    environ: the environment of Slurm's commands.
    """
    config = load_coupled(paths.config)
    make_keys(paths.peers, [config.name])
    lock = DaemonLock(paths.controller_lock)
    if not lock.acquire():
        raise CoschedError(f"{paths.run_dir}: another controller is up")
    try:
        memory = Memory(paths.mates)
        try:

            async def run(ready: Ready, log: Log) -> None:
                await _run(paths, config, memory, environ, ready, log)

            run_member(run)
        finally:
            memory.close()
    finally:
        lock.release()


async def _run(
    paths: DomainPaths,
    config: CoupledConfig,
    memory: Memory,
    environ: Mapping[str, str],
    ready: Ready,
    log: Log,
) -> None:
    links, mail = connect(paths, config, log)
    names = Names(config.name, tuple(config.domains))
    users = {0, uid_of(config.slurm.user)}
    engine = SlurmEngine(names, config.slurm, paths.gate_socket, users, environ, log)
    domain = CoupledDomain(config, engine, mail, memory, log)
    stopped = asyncio.Event()

    def reload_file() -> ReloadInfo:
        document = load_coupled(paths.config).document
        change = reload(domain.config.document, document, "controller")
        domain.configure(coupled_config(change.config))
        log(f"{paths.config}: {change.text}")
        return reload_info(change)

    def reload_for_signal() -> None:
        try:
            reload_file()
        except CoschedError as error:
            log(f"not taken: {error}")

    window = Window(
        paths.controller_socket, domain.coupling, now_ns, stopped.set, reload_file, log
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload_for_signal)
    links.listen(config.listen)
    end_metrics = _serve_metrics(config, domain)
    try:
        await window.open()
        work: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(engine.run(domain.report)),
            asyncio.ensure_future(mail.receive(domain.receive)),
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
            domain.close()
    finally:
        end_metrics()
        links.close()


def _serve_metrics(config: CoupledConfig, domain: CoupledDomain) -> Callable[[], None]:
    """Serves metrics if the configuration wants it; returns a function that ends it."""
    if config.metrics is None:
        return lambda: None

    def take() -> Figures:
        return figures(domain.coupling, config.domains, now_ns())

    return serve_metrics(config.metrics, take)


def uid_of(user: str) -> int:
    """Returns the number of SlurmUser. Raises CoschedError if there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise CoschedError(f"slurm.user: there is no user '{user}' here") from None
