"""Drives the coupling of a domain whose jobs another scheduler queues.

The engine's events become events of the ``Coupling``; its commands become orders to the
engine and messages to other domains. A job that is ready in such an engine needs no further
preparation.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from cosched.cluster.coupled.inventory import inventory, submitted
from cosched.cluster.coupled.limits import leaves_no_trace
from cosched.cluster.coupled.memory import Memory
from cosched.cluster.engines import interface as live
from cosched.cluster.engines.interface import Engine, PairedJob
from cosched.cluster.engines.mates import first_nodes, group_of
from cosched.config.slurm import CoupledConfig, Waits
from cosched.core.cluster.coupling.engine import (
    CapacityChanged,
    Command,
    Event,
    GoJob,
    GroupDisputed,
    JobAnnounced,
    JobFailed,
    JobFound,
    JobNotReady,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    JobRefused,
    JobStartedAlone,
    PassWanted,
    PrepareJob,
    Received,
    RecoveryEnded,
    ReleaseJob,
    Send,
    TryJob,
    Why,
)
from cosched.core.cluster.coupling.mail.messages import (
    LONGEST_ADDRESS,
    Addresses,
    AnyMessage,
)
from cosched.core.cluster.coupling.state import Member, Stage
from cosched.core.cluster.queue.messages import Ticked, WakeAt
from cosched.core.errors import CoschedError, changing, must_succeed
from cosched.core.units import NS_PER_S

#: After a restart jobs that had nodes get this time to report that they still have them.
RETURN_WITHIN_S = 3.0
_MOST_WAIT_S = 3600.0


class Mail(Protocol):
    """Carries messages to other domains; they may be lost."""

    def send(self, to: str, message: AnyMessage) -> None:
        """Sends without waiting."""


class CoupledDomain:
    """The jobs with mates of one domain. log: takes one line for the operator."""

    def __init__(
        self,
        config: CoupledConfig,
        engine: Engine,
        mail: Mail,
        memory: Memory,
        log: Callable[[str], None],
    ) -> None:
        self._config = config
        self._engine = engine
        self._mail = mail
        self._memory = memory
        self._log = log
        self._jobs: dict[int, PairedJob] = {}
        self._nodes: dict[int, str] = {}  # of jobs that are ready
        self._resting: dict[int, Why] = {}  # why jobs wait after they gave nodes back
        self._refused: dict[int, str] = {}
        self._todo: deque[Event] = deque()
        self._busy = False
        self._early: list[live.Event] | None = []
        self._timer: asyncio.TimerHandle | None = None
        self.coupling = memory.restart(
            config.name, config.settings, config.rights, now_ns()
        )

    # --- what comes in --------------------------------------------------------------------

    def report(self, event: live.Event) -> None:
        """Takes an event of the engine. Those before the engine answers wait for it."""
        if self._early is None:
            self._take(event)
            return
        self._early.append(event)
        if isinstance(event, live.Reached) and event.up:
            loop = asyncio.get_running_loop()
            loop.call_later(RETURN_WITHIN_S if self._awaited() else 0.0, self._recover)

    def receive(self, peer: str, message: AnyMessage) -> None:
        """Takes a message of another domain. peer: the owner of the connection's key."""
        if peer in self._config.domains:
            self._feed(Received(now_ns(), peer, message))

    @property
    def config(self) -> CoupledConfig:
        """Returns the configuration in use."""
        return self._config

    def configure(self, config: CoupledConfig) -> None:
        """Takes changed settings, rights and waits; the rest of ``config`` is the same, and
        holds keep their leases."""
        self._config = config
        self.coupling.configure(config.settings, config.rights)

    def close(self) -> None:
        """Ends the timer; the storage is closed by its owner."""
        self._wake(None)

    # --- events of the engine -------------------------------------------------------------

    def _take(self, event: live.Event) -> None:
        match event:
            case live.Submitted():
                self._submitted(event.job)
            case live.Ready():
                self._ready(event)
            case live.NotReady():
                self._lost(event)
            case live.Tried():
                self._tried(event)
            case live.Ended() | live.Cancelled():
                self._over(event.number)
            case live.Capacity():
                self._feed(CapacityChanged(now_ns(), event.nodes))
            case live.Started():
                self._started(event.number)
            case live.Refused():
                self._log(f"job {event.number} of user {event.uid}: {event.reason}")
            case live.StartFailed():
                self._start_failed(event)
            case live.GaveBack():
                self._nodes.pop(event.number, None)
            case live.Reached():
                pass  # the engine logs it; tries fail meanwhile

    def _submitted(self, job: PairedJob) -> None:
        number = job.number
        self._jobs[number] = job
        group = group_of(job.mates, self._config.name)
        member = self._member(number)
        if member is not None:
            ran = member.began and member.group == group
            if member.stage is not Stage.OVER or ran:
                return  # it was put back after it had run: its mates do not wait for it
            self._feed(JobRefused(now_ns(), number))  # it could not wait, or named others
        try:
            self._feed(JobAnnounced(now_ns(), time.time_ns(), number, group, job.user))
        except CoschedError as error:
            self._refuse(number, str(error))
        else:
            self._feed(JobQueued(now_ns(), number, job.nodes))

    def _ready(self, event: live.Ready) -> None:
        number = event.number
        self._nodes[number] = event.nodes
        self._resting.pop(number, None)
        if self._member(number) is None and number in self._jobs:
            self._refused.pop(number, None)
            self._submitted(self._jobs[number])  # it was forgotten, or its group is free
            if number in self._refused:
                return
        member = self._member(number)
        if member is None:
            self._refuse(number, self._refused.get(number, "it belongs to no group here"))
        elif member.stage is Stage.QUEUING:
            self._feed(JobReady(now_ns(), number, event.size))
        elif member.stage in (Stage.RUNNING, Stage.OVER):
            # its start was decided, or its mates are gone
            self._engine.go(number, self._others(member.addresses))

    def _started(self, number: int) -> None:
        """Notes that a job runs. If nothing here decided that, its mates need not wait."""
        self._nodes.pop(number, None)
        member = self._member(number)
        if member is not None and member.stage not in (Stage.RUNNING, Stage.OVER):
            self._log(f"job {number}: has started without its mates")
            self._feed(JobStartedAlone(now_ns(), number))

    def _start_failed(self, event: live.StartFailed) -> None:
        """Brings a job forward that was put back when it should begin: its mates run."""
        self._nodes.pop(event.number, None)
        self._log(f"job {event.number}: could not start: {event.reason}")
        member = self._member(event.number)
        if member is not None and member.stage is Stage.RUNNING:
            self._engine.wake(event.number)

    def _lost(self, event: live.NotReady) -> None:
        self._nodes.pop(event.number, None)
        member = self._member(event.number)
        self._log(f"job {event.number}: has lost its nodes: {event.reason}")
        if member is not None and (
            member.stage.has_nodes or member.stage in (Stage.PREPARING, Stage.PREPARED)
        ):
            self._feed(JobFailed(now_ns(), event.number))

    def _tried(self, event: live.Tried) -> None:
        member = self._member(event.number)
        if event.ready or member is None or member.stage is not Stage.QUEUING:
            return
        at_ns, expected_ns = now_ns(), None
        if event.expected_s is not None:
            expected_ns = at_ns + round(event.expected_s * NS_PER_S)
        self._feed(JobNotReady(at_ns, event.number, expected_ns))

    def _over(self, number: int) -> None:
        for kept in (self._jobs, self._nodes, self._resting, self._refused):
            kept.pop(number, None)
        member = self._member(number)
        if member is not None and member.stage is not Stage.OVER:
            self._feed(JobOver(now_ns(), number))

    # --- after a start --------------------------------------------------------------------

    def _awaited(self) -> bool:
        """Returns whether a job had nodes when the state was stored."""
        return any(
            member.stage not in (Stage.UNSUBMITTED, Stage.QUEUING, Stage.OVER)
            for member in self.coupling.state.members.values()
        )

    def _recover(self) -> None:
        """Reports the jobs that the engine has, and then what came meanwhile."""
        events, self._early = self._early or [], None
        if self.coupling.state.recovering:
            members, own = self.coupling.state.members, self._config.name
            for number, found, size in inventory(events, members, own):
                self._feed(JobFound(now_ns(), number, found, size))
            self._jobs.update(submitted(events))
            for event in events:
                if isinstance(event, live.Ready):
                    self._nodes[event.number] = event.nodes
            self._feed(RecoveryEnded(now_ns(), time.time_ns()))
        for event in events:
            if isinstance(event, live.Ready):
                member = self._member(event.number)
                if member is not None and member.stage is not Stage.QUEUING:
                    continue  # it was reported as prepared
            self._take(event)

    # --- the decisions --------------------------------------------------------------------

    def _feed(self, event: Event) -> None:
        """Takes an event, and carries out all that follows at once before the next one.

        Raises CoschedError for an event that cannot be; nothing has changed then. Raises
        StateLost if the rest fails."""
        if self._busy:
            self._todo.append(event)
            return
        self._busy = True
        try:
            self._handle(event)
            with must_succeed("what follows from an event"):
                while self._todo:
                    event = self._todo.popleft()
                    if not self._is_late(event):
                        self._handle(event)
        finally:
            self._busy = False

    def _is_late(self, event: Event) -> bool:
        """Returns whether a job was released by the same event that let it prepare."""
        if not isinstance(event, JobPrepared):
            return False
        member = self._member(event.number)
        return member is None or member.stage is not Stage.PREPARING

    def _handle(self, event: Event) -> None:
        with changing("the coupling"):
            commands = self.coupling.handle(event)
        with must_succeed("the orders of the coupling"):
            if any(not leaves_no_trace(command) for command in commands):
                self._memory.keep(self.coupling)
            for command in commands:
                self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        match command:
            case Send():
                self._mail.send(command.to, command.message)
            case WakeAt():
                self._wake(command.at_ns)
            case TryJob():
                self._engine.try_now(command.number)
            case PrepareJob():
                nodes = self._nodes.get(command.number, "")
                address = first_nodes(f"{command.number}@{nodes}", LONGEST_ADDRESS)
                self._todo.append(JobPrepared(now_ns(), command.number, address))
            case GoJob():
                member = self._member(command.number)
                if member is not None and member.alone:
                    self._log(f"job {command.number}: starts alone: {member.alone}")
                self._engine.go(command.number, self._others(command.addresses))
            case ReleaseJob():
                self._release(command)
            case PassWanted():
                self._end_rests()
            case GroupDisputed():
                reason = f"{command.domain} refuses its group: {command.reason}"
                self._refuse(command.number, reason)

    def _others(self, addresses: Addresses) -> list[tuple[str, str]]:
        return [each for each in addresses if each[0] != self._config.name]

    def _refuse(self, number: int, reason: str) -> None:
        self._refused[number] = reason
        self._engine.refuse(number, reason)

    def _release(self, command: ReleaseJob) -> None:
        number, waits = command.number, self._config.waits
        self._resting[number] = command.why
        self._engine.give_back(number, self._rest_s(number, command.why, waits))
        member, by = self._member(number), self._config.settings.raise_by
        if command.why is Why.YIELD and by and member is not None:
            self._engine.set_priority(number, by * member.yields)

    def _rest_s(self, number: int, why: Why, waits: Waits) -> float:
        """Returns how long a job waits that gives its nodes back."""
        member = self._member(number)
        if why is Why.NOT_DUE and member is not None and member.due_ns is not None:
            return min(_MOST_WAIT_S, max(0, member.due_ns - now_ns()) / NS_PER_S)
        if why is Why.LEASE:
            return waits.release_s
        return waits.yield_s

    def _end_rests(self) -> None:
        """Lets jobs have nodes again that may ask their mates again. A job that held for
        too long rests to the end, or it would hold again at once."""
        for number, why in list(self._resting.items()):
            member = self._member(number)
            if member is None or member.stage is not Stage.QUEUING:
                del self._resting[number]
            elif why is not Why.LEASE and member.aside == -1 and member.trying is None:
                del self._resting[number]
                self._engine.wake(number)

    def _wake(self, at_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at_ns is not None:
            delay_s = max(0, at_ns - now_ns()) / NS_PER_S
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._feed(Ticked(now_ns()))

    def _member(self, number: int) -> Member | None:
        return self.coupling.state.members.get(number)


def now_ns() -> int:
    """Returns the monotonic clock, by which the coupling reckons."""
    return time.monotonic_ns()
