"""Several domains in one engine: what they say to each other arrives at once.

Each domain is a ``CoupledScheduler``, the machine that runs live. What one asks is
answered before the clock goes on, so no two passes overlap here.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict

from cosched.core.cluster.coupling.messages import (
    Answered,
    Ask,
    Asked,
    Event,
    Group,
    HoldJob,
    JobAnnounced,
    ReleaseJob,
    Reply,
)
from cosched.core.cluster.coupling.scheduler import CoupledScheduler
from cosched.core.cluster.queue.messages import StartJob, WakeAt
from cosched.sim.engine import Engine
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.domain import NEVER, Driver


class Exchange:
    """Carries what domains say to each other. A domain that is not here is down."""

    def __init__(self, engine: Engine) -> None:
        self.domains: dict[str, CoupledDomain] = {}
        self._engine = engine
        self._under_way: deque[tuple[str, Event]] = deque()
        self._carrying = False

    def carry(self, to: str, event: Event) -> None:
        """Brings an event to a domain, and all that follows to where it belongs."""
        self._under_way.append((to, event))
        if self._carrying:
            return
        self._carrying = True
        while self._under_way:
            name, event = self._under_way.popleft()
            self.domains[name].hear(event)
        self._carrying = False

    def ask(self, by: str, ask: Ask) -> None:
        now_ns = self._engine.now_ns
        if ask.to in self.domains:
            self.carry(ask.to, Asked(now_ns, by, ask.request))
        else:
            self.carry(by, Answered(now_ns, None))

    def reply(self, reply: Reply) -> None:
        self.carry(reply.to, Answered(self._engine.now_ns, reply.answer))


class CoupledDomain(Driver):
    """A workload on its way through one of several domains.

    ready_ns: when each job of a group was first ready but did not start, -1 if never.
    held_node_ns: nodes times how long they were held, idle.
    """

    def __init__(
        self,
        engine: Engine,
        exchange: Exchange,
        workload: Workload,
        scheduler: CoupledScheduler,
        estimates: Estimates,
        groups: Mapping[int, Group],
    ) -> None:
        super().__init__(engine, workload, estimates)
        self.ready_ns = array("q", [NEVER]) * len(workload)
        self.held_node_ns = 0
        self._coupled = scheduler
        self._exchange = exchange
        self._hold_ns: dict[int, int] = {}
        exchange.domains[scheduler.name] = self
        for index, group in groups.items():
            scheduler.handle(JobAnnounced(0, index, group))

    @property
    def counts(self) -> dict[str, int]:
        """How often each branch was taken."""
        return asdict(self._coupled.counts)

    def _tell(self, event: Event) -> None:
        self._exchange.carry(self._coupled.name, event)

    def hear(self, event: Event) -> None:
        """Something happened, here or in another domain."""
        now_ns = self._engine.now_ns
        for command in self._coupled.handle(event):
            if isinstance(command, StartJob):
                self._account(command.job.number, command.job.size)
                self._start(command)
            elif isinstance(command, Ask):
                self._exchange.ask(self._coupled.name, command)
            elif isinstance(command, Reply):
                self._exchange.reply(command)
            elif isinstance(command, WakeAt):
                self._wake_at(command)
            else:
                index = command.job.number
                if isinstance(command, ReleaseJob):
                    self._account(index, command.job.size)
                    continue
                if isinstance(command, HoldJob):
                    self._hold_ns[index] = now_ns
                if self.ready_ns[index] == NEVER:
                    self.ready_ns[index] = now_ns

    def _account(self, index: int, size: int) -> None:
        """A hold is over, if there was one."""
        since_ns = self._hold_ns.pop(index, None)
        if since_ns is not None:
            self.held_node_ns += (self._engine.now_ns - since_ns) * size
