"""Counts the nodes of a Slurm, and compares its configuration with what pairs need."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping

from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands
from cosched.cluster.engines.slurm.events import Capacity, Report
from cosched.cluster.engines.slurm.jobs import SlurmJob
from cosched.cluster.engines.slurm.sinfo import in_service, may_be_free, preempts
from cosched.core.decoding import is_whole, parse_integer

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


#: The longest wait of a yield, in seconds, if nothing brings the job forward sooner.
_EXPIRE_S = 120
_BATCH_DELAY_S = 3


def advise(config: Mapping[str, str]) -> list[str]:
    """Returns a line for each setting that hinders pairs. config: as ``scontrol show
    config`` prints it."""
    lines = []
    prolog = config.get("PrologSlurmctld", "(null)")
    if prolog == "(null)":
        lines.append("PrologSlurmctld is not set: jobs start without their mates")
    limit = config.get("PrologEpilogTimeout", "65534")
    if is_whole(limit.split()[0], most=65533):
        lines.append(f"PrologEpilogTimeout={limit} ends holds; leave it unset")
    expire = re.search(r"cred_expire=(\d+)", config.get("AuthInfo", ""))
    if (_EXPIRE_S if expire is None else _seconds(expire[1])) > 30:
        lines.append(
            "AuthInfo: add cred_expire=10, or a job that yields waits 2 minutes when the "
            "controller is away"
        )
    delay = re.search(r"batch_sched_delay=(\d+)", config.get("SchedulerParameters", ""))
    if (_BATCH_DELAY_S if delay is None else _seconds(delay[1])) > 1:
        lines.append(
            "SchedulerParameters: add batch_sched_delay=0, or a mate starts seconds later"
        )
    if config.get("JobRequeue", "1") == "0":
        lines.append("JobRequeue=0: jobs with mates need sbatch --requeue to yield")
    return lines


def _seconds(text: str) -> int:
    return parse_integer(text, "Slurm's configuration", 0, 1 << 62)
