"""Runs the controller of a domain whose jobs Slurm queues."""

from __future__ import annotations

import asyncio
import pwd
from collections.abc import Mapping

from cosched.cluster.coupled.config import CoupledConfig, load_coupled
from cosched.cluster.coupled.domain import CoupledDomain, now_ns
from cosched.cluster.coupled.mail import connect
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.coupled.window import Window
from cosched.cluster.engines.slurm.engine import Names, SlurmEngine
from cosched.cluster.keys import make_keys
from cosched.cluster.member import Log, Ready, run_member
from cosched.cluster.paths import DomainPaths
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
    window = Window(paths.controller_socket, domain.coupling, now_ns, stopped.set)
    links.listen(config.listen)
    try:
        await window.open()
        work = [
            asyncio.ensure_future(engine.run(domain.report)),
            asyncio.ensure_future(mail.receive(domain.receive)),
            asyncio.ensure_future(stopped.wait()),
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
        links.close()


def uid_of(user: str) -> int:
    """Returns the number of SlurmUser. Raises CoschedError if there is no such user."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise CoschedError(f"slurm.user: there is no user '{user}' here") from None
