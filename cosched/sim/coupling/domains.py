"""Runs several coupled domains in one engine. Messages between them arrive at once.

Each domain is a ``CoupledQueue``, the machine that a live domain has. Jobs are prepared in
no time. A domain may take its time to find that it keeps its free nodes for other jobs, as
Slurm does; until then a mate keeps its own nodes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping
from functools import partial

import msgspec

from cosched.core.cluster.coupling.coupled_queue import (
    Command,
    CoupledQueue,
    Event,
    PrepareOn,
)
from cosched.core.cluster.coupling.engine_messages import (
    GoJob,
    HoldJob,
    JobAnnounced,
    JobPrepared,
    PeerLost,
    Received,
    ReleaseJob,
    Send,
)
from cosched.core.cluster.coupling.engine_messages import Why as Released
from cosched.core.cluster.coupling.groups import Group
from cosched.core.cluster.coupling.mate_messages import (
    Answer,
    AnyMessage,
    Cause,
    NotReady,
    Question,
)
from cosched.core.cluster.queue.queue_commands import EndJob, StartJob, WakeAt
from cosched.core.cluster.queue.queue_events import JobFailedToStart
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.driver import Domain
from cosched.sim.virtual_time import END, NEVER, VirtualTime


class Exchange:
    """Delivers messages between domains. A domain that is not registered is down.

    search_ns: for how long a domain looks for nodes before it answers that a job gets none,
    although as many are free. 0: it answers at once.
    """

    def __init__(
        self, engine: VirtualTime, search_ns: Mapping[str, int] | None = None
    ) -> None:
        self.domains: dict[str, CoupledDomain] = {}
        self._engine = engine
        self._search_ns = search_ns or {}
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

    def send(self, by: str, send: Send) -> None:
        """Delivers a message; reports to its sender that the other domain is down."""
        now_ns = self._engine.now_ns
        search_ns = self._search_ns.get(by, 0)
        if send.to not in self.domains:
            self.deliver(by, PeerLost(now_ns, send.to))
        elif search_ns and self.domains[by].looked_in_vain(send.message):
            event = Received(now_ns + search_ns, by, send.message)
            self._engine.at(event.now_ns, END, partial(self.deliver, send.to), event)
        else:
            self.deliver(send.to, Received(now_ns, by, send.message))


class CoupledDomain(Domain):
    """Feeds a workload to one of several domains.

    ready_ns: when each job of a group was first ready but could not start, or ``NEVER``.
    """

    def __init__(
        self,
        engine: VirtualTime,
        exchange: Exchange,
        workload: Workload,
        queue: CoupledQueue,
        estimates: Estimates,
        groups: Mapping[int, Group],
    ) -> None:
        super().__init__(engine, workload, queue, estimates)
        self.ready_ns = array("q", [NEVER]) * len(workload)
        self._coupled = queue
        self._exchange = exchange
        self._prepared: dict[int, PrepareOn] = {}
        self._of_group = {group.digest: index for index, group in groups.items()}
        self._asked: int | None = None  # the job of the question that is being handled
        self.name = queue.coupling.name
        exchange.domains[self.name] = self
        engine.at(0, END, self._announce, groups)

    @property
    def counts(self) -> dict[str, int]:
        """How often each branch of a decision was taken."""
        return dict(msgspec.structs.asdict(self._coupled.coupling.counts))

    @property
    def held_node_ns(self) -> int:
        """Node-nanoseconds that jobs held idle."""
        return self._coupled.coupling.counts.held_node_ns

    def _announce(self, groups: Mapping[int, Group]) -> None:
        for index, group in groups.items():
            submit_ns = self._workload.submit_ns[index]
            self._feed(JobAnnounced(0, submit_ns, index, group))

    def _feed(self, event: Event) -> None:
        self._exchange.deliver(self.name, event)

    def receive(self, event: Event) -> None:
        """Carries out the commands that follow from an event here or in another domain."""
        if isinstance(event, Received) and isinstance(event.message, Question):
            self._asked = self._of_group.get(event.message.digest)
        else:
            self._asked = None
        for command in self._queue.handle(event):
            self._carry_out(command)

    def looked_in_vain(self, message: AnyMessage) -> bool:
        """Returns whether a message answers that a job of this domain gets no nodes,
        although as many are free."""
        return (
            self._asked is not None
            and isinstance(message, Answer)
            and message.reply == NotReady(Cause.NODES)
            and self._workload.size[self._asked] <= self._coupled.free
        )

    def _carry_out(self, command: Command) -> None:
        now_ns = self._engine.now_ns
        match command:
            case StartJob():
                self._start(command)
            case Send():
                self._exchange.send(self.name, command)
            case WakeAt():
                self._wake_at(command)
            case PrepareOn():
                self._prepared[command.job.number] = command
                self._feed(JobPrepared(now_ns, command.job.number))
            case GoJob():
                prepared = self._prepared.pop(command.number)
                self._start(StartJob(prepared.job, prepared.nodes))
            case EndJob():
                del self._prepared[command.number]
                self._feed(JobFailedToStart(now_ns, command.number, requeue=True))
            case HoldJob():
                self._note_ready(command.number)
            case ReleaseJob() if command.why is Released.YIELD:
                self._note_ready(command.number)

    def _note_ready(self, index: int) -> None:
        if self.ready_ns[index] == NEVER:
            self.ready_ns[index] = self._engine.now_ns
