"""Asks Slurm every half minute how many nodes are in service, and reports changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cosched.cluster.engines.slurm.advice import advise
from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands
from cosched.cluster.engines.slurm.events import Capacity, Report
from cosched.cluster.engines.slurm.sinfo_text import in_service

_EVERY_S = 30.0


async def count_always(
    commands: SlurmCommands, report: Report, log: Callable[[str], None]
) -> None:
    """Reports the number of nodes in service whenever it changes, until it is cancelled.

    It logs a line about each setting of Slurm that hinders pairs, once."""
    advised, known = False, -1
    while True:
        try:
            nodes = in_service(await commands.nodes())
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
