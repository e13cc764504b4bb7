"""Tries to give a job nodes now, because its mates have theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from cosched.cluster.engines.slurm.commands import CommandFailed, SlurmCommands
from cosched.cluster.engines.slurm.events import Ready, Report, Tried
from cosched.cluster.engines.slurm.free_nodes import FreeNodes
from cosched.cluster.engines.slurm.tracker import Phase, Tracked, Tracker
from cosched.cluster.engines.slurm.try_options import can_be_described, waits_for_nodes


class Tries:
    """The tries of one cluster.

    try_s: how long Slurm may take to give a job nodes that are free. report: takes the
    events. poll: takes the jobs as Slurm shows them now. release: ends the wait of a
    job for nodes.
    """

    def __init__(
        self,
        tracker: Tracker,
        commands: SlurmCommands,
        free: FreeNodes,
        try_s: float,
        report: Report,
        poll: Callable[[], Awaitable[None]],
        release: Callable[[int], Awaitable[None]],
    ) -> None:
        self._tracker = tracker
        self._commands = commands
        self._free = free
        self._try_s = try_s
        self._report = report
        self._poll = poll
        self._release = release
        self._got_ready: dict[int, asyncio.Future[None]] = {}

    async def run(self, number: int) -> None:
        """Tries one job, and reports the result. Other orders about it wait meanwhile."""
        tracked = await self._may_try(number)
        if isinstance(tracked, Tried):
            self._report(tracked)
            return
        together = not tracked.job.mates.within_ns
        if together and await self._lacks_nodes(tracked):
            self._report(await self._expected(number))  # its mate waits for this
            await self._release(number)
        else:
            self._report(await self._wait_for_nodes(tracked))

    def got_ready(self, number: int) -> None:
        """Reports that the gate of a job waits."""
        ready = self._got_ready.get(number)
        if ready is not None and not ready.done():
            ready.set_result(None)

    async def _may_try(self, number: int) -> Tracked | Tried:
        """Returns a job that may have nodes now, or the result for another one."""
        tracked = self._tracker.get(number)
        if tracked is None:
            return Tried(number, False, "Slurm has no such job with mates")
        if tracked.phase is Phase.READY:
            if not tracked.may_yield:
                self._report(Ready(number, tracked.nodes))
            return Tried(number, True)
        if tracked.phase is not Phase.QUEUED:
            return Tried(number, False, f"it is {tracked.phase.value}")
        if tracked.slurm.held or tracked.slurm.begins_later(time.time()):
            await self._poll()
        if tracked.slurm.held:
            return Tried(number, False, "it is held in Slurm's queue")
        if tracked.slurm.begins_later(time.time()):
            return Tried(number, False, "its begin time has not come")
        return tracked

    async def _lacks_nodes(self, tracked: Tracked) -> bool:
        """Returns whether a job has to wait for nodes of others. It looks twice: between,
        Slurm may have given the job nodes that another one has just given back."""
        if not await self._free.lack_for(tracked.slurm):
            return False
        await self._poll()
        if self._tracker.expects_gate or tracked.phase is not Phase.QUEUED:
            return False
        return await self._free.lack_for(tracked.slurm)

    async def _wait_for_nodes(self, tracked: Tracked) -> Tried:
        number = tracked.job.number
        ready = asyncio.get_running_loop().create_future()
        self._got_ready[number] = ready
        try:
            await self._release(number)
            if tracked.phase is Phase.QUEUED:
                await asyncio.wait({ready}, timeout=self._try_s)
        finally:
            del self._got_ready[number]
        return Tried(number, True) if ready.done() else await self._expected(number)

    async def _expected(self, number: int) -> Tried:
        """Returns the result for a job that got no nodes in time. Only a job that may start
        apart from its mates needs an expected start."""
        tracked = self._tracker.get(number)
        if tracked is not None and tracked.phase is Phase.READY:
            return Tried(number, True)
        if tracked is not None and not tracked.job.mates.within_ns:
            return Tried(number, False, "its nodes are not free")
        await self._poll()
        tracked = self._tracker.get(number)
        if tracked is None:
            return Tried(number, False, "it is over")
        if tracked.phase is Phase.READY:
            return Tried(number, True)
        reason = tracked.slurm.state_reason or "no reason"
        if not waits_for_nodes(tracked.slurm):
            return Tried(number, False, f"Slurm does not start it: {reason}")
        if not can_be_described(tracked.slurm):
            return Tried(number, False, "its nodes are not free")
        try:
            expected_s = await self._commands.expected_in(tracked.slurm)
        except CommandFailed as error:
            return Tried(number, False, str(error))
        return Tried(number, False, "its nodes are not free", expected_s)
