"""Counts the nodes of a Slurm, and compares its configuration once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cosched.cluster.engines.interface import Capacity, Report
from cosched.cluster.engines.slurm.advice import advise
from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands

_EVERY_S = 30.0


async def count_always(
    commands: SlurmCommands, report: Report, log: Callable[[str], None]
) -> None:
    """Reports the number of nodes in service whenever it changes, until it is cancelled.

    It logs a line about each setting of Slurm that hinders pairs, once."""
    advised, known = False, -1
    while True:
        try:
            nodes = await commands.nodes()
            if not advised:
                for line in advise(await commands.config()):
                    log(f"slurm.conf: {line}")
                advised = True
        except CommandFailed:
            nodes = known  # the poll reports that Slurm is away
        if nodes != known:
            known = nodes
            report(Capacity(nodes))
        await asyncio.sleep(_EVERY_S)
