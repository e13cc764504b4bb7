"""Carries out the coupling's orders for jobs with mates in a site's Slurm, from outside.
Orders return at once; their effects come as events. An order for a job that is not in a
fitting state any more has no effect, since its event is under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from cosched.cluster.coupling.mates import shown_mates
from cosched.cluster.engines.slurm.commands import (
    LONGEST_LINE,
    CommandFailed,
    SlurmCommands,
)
from cosched.cluster.engines.slurm.events import (
    Cancelled,
    Event,
    GaveBack,
    Reached,
    Ready,
    Report,
)
from cosched.cluster.engines.slurm.free_nodes import FreeNodes
from cosched.cluster.engines.slurm.jobs import SlurmJob
from cosched.cluster.engines.slurm.node_poll import count_always
from cosched.cluster.engines.slurm.tracker import (
    YIELD,
    Gate,
    GateOrder,
    Phase,
    Step,
    Tracked,
    Tracker,
    TurnAway,
)
from cosched.cluster.engines.slurm.tries import Tries
from cosched.cluster.engines.slurm.waiting_gates import GateHello, Gates
from cosched.cluster.member import SideTasks, until_one_ends
from cosched.config.slurm import SlurmSettings

Log = Callable[[str], None]

#: In front of the addresses of a started job's mates, in its AdminComment.
MATES = "cosched: mates "
#: How often squeue runs while an order is being carried out, and for how long.
_BUSY_POLL_S = 0.25
_BUSY_S = 10.0
_LEAST_POLL_S = 0.1
#: Slurm refuses changes of a job while its prolog is being cleaned up.
_SETTLES_WITHIN_S = 30.0
#: How long a refused job waits before it is held.
_REFUSED_WAIT_S = 60.0
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Names:
    """The names of coupled domains."""

    own: str  #: this domain's name
    others: Collection[str]  #: the domains with which it is coupled


class SlurmSteering:
    """The jobs with mates of one Slurm.

    socket: where gates connect. users: as whom gates may run (SlurmUser and root). log:
    takes one line for the operator.
    """

    def __init__(
        self,
        names: Names,
        settings: SlurmSettings,
        socket: Path,
        users: Collection[int],
        environ: Mapping[str, str],
        log: Log,
    ) -> None:
        self._settings = settings
        self._log = log
        self._commands = SlurmCommands(environ, settings.conf, settings.command_s)
        only_hold = settings.cannot_yield == "hold"
        self._tracker = Tracker(names.own, names.others, only_hold=only_hold)
        self._tries = Tries(
            self._tracker,
            self._commands,
            FreeNodes(self._commands, log),
            settings.try_s,
            self._pass_on,
            self._poll,
            self._release,
        )
        self._gates = Gates(socket, users, self._came, self._left, log)
        self._report: Report = lambda _event: None
        self._poll_now = asyncio.Event()
        self._polling = asyncio.Lock()
        self._locks: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()
        self._gave_back: dict[int, asyncio.Future[None]] = {}
        self._to_try: set[int] = set()  # jobs whose try has not begun
        self._tasks = SideTasks(self._fail)
        self._broken: asyncio.Future[None] | None = None
        self._up: bool | None = None

    async def run(self, report: Report) -> None:
        """Reports events until it is cancelled: first those of jobs that exist, then
        ``Reached``. Raises CoschedError if Slurm cannot be steered at all."""
        self._report = report
        self._broken = asyncio.get_running_loop().create_future()
        nodes = count_always(self._commands, report, self._log)
        try:
            await until_one_ends(
                self._poll_always(), nodes, self._end_holds(), self._broken
            )
        finally:
            await asyncio.gather(*self._tasks.cancel(), return_exceptions=True)
            await self._gates.close()

    # --- orders ---------------------------------------------------------------------------

    def go(self, number: int, mates: Sequence[tuple[str, str]] = ()) -> None:
        """Starts a ready job. Its AdminComment gets the mates soon after, also if there are
        none: TaskProlog waits for it."""
        tracked = self._tracker.get(number)
        steps = self._tracker.go(number, time.monotonic())
        self._carry_out(steps)
        self._poll_now.set()
        if steps and tracked is not None:
            self._tasks.start(self._introduce(tracked.slurm, mates))

    def give_back(self, number: int, wait_s: float) -> None:
        """Makes a ready job yield. One that cannot is ready again after ``wait_s``."""
        tracked = self._tracker.get(number)
        if tracked is None or tracked.phase is not Phase.READY:
            return
        if not tracked.may_yield:
            self._tasks.start(self._only_hold(tracked, wait_s))
            return
        gone = asyncio.get_running_loop().create_future()
        self._gave_back[number] = gone
        self._tasks.start(self._wait_again(number, gone, wait_s))
        self._carry_out(self._tracker.give_back(number, time.monotonic()))

    def try_now(self, number: int) -> None:
        """Makes a queued job ready now if Slurm can. A second order waits for the first
        one; more are the same as the second."""
        if number not in self._to_try:
            self._to_try.add(number)
            self._tasks.start(self._try(number))

    def wake(self, number: int) -> None:
        """Ends the wait of a job that has given its nodes back."""
        self._tasks.start(self._wait_again(number, None, 0.0))

    def refuse(self, number: int, reason: str) -> None:
        """Holds a job that waits or is ready. One that has begun goes on."""
        tracked = self._tracker.get(number)
        if tracked is None or tracked.has_begun:
            return
        if tracked.may_yield:
            self.give_back(number, _REFUSED_WAIT_S)
            self._tasks.start(self._refuse(tracked, reason))
        else:
            self.cancel(number, reason)

    def cancel(self, number: int, reason: str) -> None:
        """Cancels a job that waits."""
        tracked = self._tracker.get(number)
        if tracked is not None:
            self._tasks.start(self._cancel(tracked.slurm, reason))

    def set_priority(self, number: int, places: int) -> None:
        """Moves a queued job forward by a number of places, by its nice value."""
        tracked = self._tracker.get(number)
        if tracked is not None:
            self._tasks.start(self._move(tracked.slurm, places))

    # --- carrying out ---------------------------------------------------------------------

    async def _only_hold(self, tracked: Tracked, wait_s: float) -> None:
        """Treats a job that cannot yield as if it had: it keeps its nodes meanwhile."""
        number = tracked.job.number
        self._report(GaveBack(number))
        await asyncio.sleep(wait_s)
        if self._tracker.get(number) is tracked and tracked.phase is Phase.READY:
            self._report(Ready(number, tracked.nodes))

    async def _wait_again(
        self, number: int, gone: asyncio.Future[None] | None, wait_s: float
    ) -> None:
        async with self._lock(number):
            if gone is not None:
                await gone
            await self._settle(number, wait_s)

    async def _refuse(self, tracked: Tracked, reason: str) -> None:
        number = tracked.job.number
        async with self._lock(number):
            await self._poll()  # it may have been moved when it gave its nodes back
            if self._tracker.get(number) is not tracked or tracked.has_begun:
                return
            try:
                await self._commands.hold(tracked.slurm, f"cosched: {reason}")
            except CommandFailed as error:
                self._log(f"job {number}: {reason}; not held: {error}")

    async def _settle(self, number: int, wait_s: float) -> None:
        """Sets from when a job may have nodes again, once Slurm takes changes of it."""
        end = time.monotonic() + _SETTLES_WITHIN_S
        pause = _FIRST_PAUSE_S
        while (tracked := self._tracker.get(number)) and tracked.phase is Phase.QUEUED:
            try:
                await self._commands.may_start(number, wait_s)
            except CommandFailed as error:
                if time.monotonic() > end:
                    self._log(f"job {number}: waits as long as Slurm lets it: {error}")
                    return
            else:
                return
            self._poll_now.set()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    async def _try(self, number: int) -> None:
        async with self._lock(number):
            self._to_try.discard(number)
            await self._tries.run(number)

    async def _release(self, number: int) -> None:
        await self._settle(number, 0.0)

    def _pass_on(self, event: Event) -> None:
        self._report(event)

    async def _introduce(self, job: SlurmJob, mates: Sequence[tuple[str, str]]) -> None:
        try:
            line = MATES + shown_mates(mates, LONGEST_LINE - len(MATES))
            await self._commands.comment(job, line)
        except CommandFailed as error:
            self._log(f"job {job.job_id}: does not get the addresses of its mates: {error}")

    async def _cancel(self, job: SlurmJob, reason: str) -> None:
        try:
            await self._commands.cancel(job, f"cosched: {reason}")
        except CommandFailed as error:
            self._log(f"job {job.job_id}: not cancelled: {error}")
        self._poll_now.set()

    async def _move(self, job: SlurmJob, places: int) -> None:
        try:
            await self._commands.move(job, places)
        except CommandFailed as error:
            self._log(f"job {job.job_id}: keeps its priority: {error}")

    async def _turn_away(self, step: TurnAway) -> None:
        reason = f"cosched: {step.reason}"
        try:
            if step.waits:
                await self._commands.hold(step.slurm, reason)
            else:
                await self._commands.cancel(step.slurm, reason)
        except CommandFailed as error:
            self._log(f"job {step.number}: {step.reason}; not turned away: {error}")
        self._tracker.turned_away(step.number, time.monotonic())
        if step.life:
            self._gates.answer(step.life, YIELD)

    # --- events ---------------------------------------------------------------------------

    def _came(self, hello: GateHello) -> None:
        now = time.monotonic()
        ends = now + self._settings.longest_hold_s - hello.waited_s
        gate = Gate(hello.job, hello.restarts, hello.nodes, hello.life, now, ends)
        self._carry_out(self._tracker.came(gate))
        if self._tracker.early:
            self._poll_now.set()

    def _left(self, life: str) -> None:
        self._carry_out(self._tracker.left(life, time.monotonic()))
        self._poll_now.set()

    def _carry_out(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, GateOrder):
                self._gates.answer(step.life, step.order)
                continue
            if isinstance(step, TurnAway):
                self._tasks.start(self._turn_away(step))
                continue
            self._report(step)
            if isinstance(step, Ready):
                self._tries.got_ready(step.number)
            elif isinstance(step, GaveBack | Cancelled):  # the job may come again at once
                _done(self._gave_back.pop(step.number, None))

    # --- asking Slurm ---------------------------------------------------------------------

    async def _poll_always(self) -> None:
        await self._gates.open()
        while True:
            self._poll_now.clear()
            await self._poll()
            pause_s = self._settings.poll_s
            if self._tracker.is_busy(time.monotonic() - _BUSY_S):
                pause_s = min(pause_s, _BUSY_POLL_S)
            await asyncio.sleep(_LEAST_POLL_S)
            await _wait(self._poll_now, pause_s)

    async def _end_holds(self) -> None:
        """Starts the jobs that cannot yield, before their leases end: a yield ends them."""
        ahead_s = self._settings.ahead_s
        while True:
            for number in self._tracker.only_hold_until(time.monotonic() + ahead_s):
                self._log(f"job {number}: its lease ends and it cannot yield, so it starts")
                self.go(number)
            await asyncio.sleep(ahead_s / 4)

    async def _poll(self) -> None:
        """Reads the jobs as Slurm shows them now. An answer is taken before the next is
        asked for: an older one could bring back a job that is over."""
        async with self._polling:
            asked = time.monotonic()
            try:
                jobs = await self._commands.jobs()
            except CommandFailed as error:
                self._reached(False, str(error))
            else:
                self._carry_out(self._tracker.polled(jobs, asked))
                self._forget()
                self._reached(True)

    def _reached(self, up: bool, reason: str = "") -> None:
        if up is not self._up:
            self._log("Slurm answers" if up else f"Slurm does not answer: {reason}")
            self._up = up
            self._report(Reached(up, reason))

    # --- small ----------------------------------------------------------------------------

    def _lock(self, number: int) -> asyncio.Lock:
        """Returns the lock that keeps the orders about a job in their order."""
        return self._locks.setdefault(number, asyncio.Lock())

    def _forget(self) -> None:
        """Drops what was kept for jobs that are over."""
        for number in [each for each in self._gave_back if self._tracker.get(each) is None]:
            _done(self._gave_back.pop(number))

    def _fail(self, error: BaseException) -> None:
        if self._broken is not None and not self._broken.done():
            self._broken.set_exception(error)


def _done(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)


async def _wait(event: asyncio.Event, within_s: float) -> None:
    """Waits for the event, but no longer than ``within_s``."""
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=within_s)
    finally:
        waiting.cancel()
