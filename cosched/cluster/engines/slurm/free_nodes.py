"""Asks Slurm whether enough nodes may be free for a job."""

from __future__ import annotations

from collections.abc import Callable

from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands
from cosched.cluster.engines.slurm.jobs import SlurmJob
from cosched.cluster.engines.slurm.sinfo_text import may_be_free, preempts


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
