"""Counts the nodes of a Slurm: those in service, and those that may be free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cosched.cluster.engines.slurm.advice import advise
from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands
from cosched.cluster.engines.slurm.events import Capacity, Report
from cosched.cluster.engines.slurm.jobs import SlurmJob
from cosched.cluster.engines.slurm.sinfo import in_service, may_be_free, preempts

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


class FreeNodes:
    """Finds whether a job has to wait for nodes of others. Slurm itself reports only that a
    job has nodes, not that it will get none."""

    def __init__(self, commands: SlurmCommands, log: Callable[[str], None]) -> None:
        self._commands = commands
        self._log = log
        self._preempts: bool | None = None  # Slurm restarts when that changes
        self._problem = ""

    async def lack_for(self, job: SlurmJob) -> bool:
        """Returns whether fewer nodes may be free than a job needs. False if that is not
        sure, or if jobs may take the nodes of others. A new reason why it is not sure is
        logged."""
        try:
            if self._preempts is None:
                self._preempts = preempts(await self._commands.config())
            if self._preempts:
                return False
            shown = await self._commands.nodes()
        except CommandFailed as error:
            if self._problem != str(error):
                self._problem = str(error)
                self._log(f"cannot count the free nodes: {error}")
            return False
        free = may_be_free(shown, (job.partition or "").split(","))
        return free is not None and free < job.nodes
