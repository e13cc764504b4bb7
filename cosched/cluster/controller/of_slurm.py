"""Makes the work of a controller that steers a site's Slurm."""

from __future__ import annotations

from collections.abc import Mapping

from cosched.cluster.controller.controller import Controller
from cosched.cluster.coupling.pairs import open_pairs
from cosched.cluster.engines.slurm.engine import SlurmEngine
from cosched.cluster.engines.slurm.prolog_scripts import uid_of
from cosched.cluster.engines.slurm.steering import Names, SlurmSteering
from cosched.cluster.member import Log, Make, Ready
from cosched.cluster.paths import DomainPaths
from cosched.config.slurm import load_here


def steer_slurm(paths: DomainPaths, environ: Mapping[str, str]) -> Make:
    """Returns the work of a controller that couples the jobs of a Slurm with others."""
    config = load_here(paths.config)
    names = Names(config.name, tuple(config.domains))
    users = {0, uid_of(config.slurm.user)}

    async def run(ready: Ready, log: Log) -> None:
        slurm = SlurmSteering(names, config.slurm, paths.gate_socket, users, environ, log)
        pairs = open_pairs(config, paths, log)
        engine = SlurmEngine(config, slurm, pairs, log)
        await Controller(engine, paths, log).run(ready)

    return run
