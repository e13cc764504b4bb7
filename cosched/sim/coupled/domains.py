"""Runs several coupled domains in one engine. Messages between them arrive at once.

Each domain is a ``CoupledScheduler``. A request is answered before the clock advances, so
no two scheduling passes overlap.
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
from cosched.sim.engine import NEVER, Engine
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.domain import Driver


class Exchange:
    """Delivers messages between domains. A domain that is not registered is down."""

    def __init__(self, engine: Engine) -> None:
        self.domains: dict[str, CoupledDomain] = {}
        self._engine = engine
        self._pending: deque[tuple[str, Event]] = deque()
        self._delivering = False

    def deliver(self, to: str, event: Event) -> None:
        """Delivers an event to a domain, and all messages that follow from it."""
        self._pending.append((to, event))
        if self._delivering:
            return
        self._delivering = True
        while self._pending:
            name, event = self._pending.popleft()
            self.domains[name].receive(event)
        self._delivering = False

    def ask(self, by: str, ask: Ask) -> None:
        now_ns = self._engine.now_ns
        if ask.to in self.domains:
            self.deliver(ask.to, Asked(now_ns, by, ask.request))
        else:
            self.deliver(by, Answered(now_ns, None))

    def reply(self, reply: Reply) -> None:
        self.deliver(reply.to, Answered(self._engine.now_ns, reply.answer))


class CoupledDomain(Driver):
    """Feeds a workload to one of several domains.

    ready_ns: when each job of a group was first ready but could not start, or ``NEVER``.
    held_node_ns: node-nanoseconds that jobs held idle.
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
        """How often each branch of a decision was taken."""
        return asdict(self._coupled.counts)

    def _feed(self, event: Event) -> None:
        self._exchange.deliver(self._coupled.name, event)

    def receive(self, event: Event) -> None:
        """Carries out the commands that follow from an event here or in another domain."""
        now_ns = self._engine.now_ns
        for command in self._coupled.handle(event):
            if isinstance(command, StartJob):
                self._end_hold(command.job.number, command.job.size)
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
                    self._end_hold(index, command.job.size)
                    continue
                if isinstance(command, HoldJob):
                    self._hold_ns[index] = now_ns
                if self.ready_ns[index] == NEVER:
                    self.ready_ns[index] = now_ns

    def _end_hold(self, index: int, size: int) -> None:
        """Adds up the node time of the job's hold, if it held nodes."""
        since_ns = self._hold_ns.pop(index, None)
        if since_ns is not None:
            self.held_node_ns += (self._engine.now_ns - since_ns) * size
