"""A domain among others, as a pure state machine: its queue, and what its mates must know.

``CoupledScheduler`` makes the passes of its ``QueueScheduler`` and puts ``run_job``
between "ready" and "start". Where that asks another domain, the pass rests until the
answer comes. It knows its own settings and jobs, and of other domains only what they
answer.

Holding jobs give their nodes back at each multiple of ``release_ns`` and are considered
last in the pass that follows (section IV.E.1). Jobs that hold count as running in the
plans of backfill.

While a pass rests, questions about jobs are answered; a request to start or hold one is
refused if it comes from a domain of a greater name, and kept until the pass is over if
from one of a lesser name. So no two domains wait for each other, and one of two that try
each other's mates at the same time gets through.

Invariants, after every event at which no pass rests: those of the queue; a job holds only
while a mate waits; a group without constraint starts together, at most the time of its
messages apart, unless a domain was down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeAlias

from cosched.core.coupling.members import Member, Members
from cosched.core.coupling.messages import (
    Answered,
    Ask,
    Asked,
    Command,
    Event,
    HoldJob,
    JobAnnounced,
    ReleaseJob,
    Reply,
    Scheme,
    Timing,
    YieldJob,
)
from cosched.core.coupling.protocol import (
    Answer,
    DomainName,
    Done,
    GetMateJobId,
    GetMateStatus,
    MateJobId,
    MateStarted,
    MateState,
    PromiseMate,
    Request,
    StartMate,
    TryHoldMate,
    TryStartMate,
)
from cosched.core.coupling.run_job import Outcome, run_job
from cosched.core.coupling.settings import CouplingSettings
from cosched.core.errors import CoschedError
from cosched.core.queue.conservative import Conservative
from cosched.core.queue.messages import (
    Job,
    JobEnded,
    JobId,
    JobSubmitted,
    StartJob,
    Ticked,
    WakeAt,
)
from cosched.core.queue.nodes import Intervals
from cosched.core.queue.planner import NO_RULES, PassRules
from cosched.core.queue.scheduler import Policy, QueueScheduler

#: Work that may have to ask; it is sent the answers.
Work: TypeAlias = "Generator[Ask, Answer | None, None]"


@dataclass(slots=True)
class Counts:
    """How often each branch was taken."""

    asked: int = 0
    holds: int = 0
    yields: int = 0
    yields_by_held_cap: int = 0
    holds_by_yield_cap: int = 0
    not_due: int = 0
    releases: int = 0
    started_by_mate: int = 0
    tries: int = 0
    tries_refused: int = 0  #: there were not enough free nodes, so no pass was made
    busy: int = 0  #: refused since a pass of our own was under way
    promises: int = 0
    promises_broken: int = 0


class CoupledScheduler:
    """Decides when the jobs of one domain start. Deterministic; no clock of its own."""

    def __init__(
        self,
        name: DomainName,
        nodes: Intervals,
        policy: Policy,
        settings: CouplingSettings,
    ) -> None:
        if policy.backfill is Conservative:
            raise CoschedError(
                f"domain {name}: conservative backfill cannot hold or yield; "
                "choose fcfs, easy or wfp"
            )
        self.name = name
        self.counts = Counts()
        self._settings = settings
        self._queue = QueueScheduler(nodes, policy)
        self._members = Members()
        self._now_ns = 0
        self._held = 0  # nodes
        self._release_due_ns: int | None = None
        self._released: frozenset[JobId] = frozenset()  # to be last in the next pass
        self._pause_ns: int | None = None  # nobody holds until then
        self._wake_ns: int | None = None
        self._commands: list[Command] = []
        self._resting: Work | None = None
        self._kept: deque[Event] = deque()

    @property
    def queue(self) -> QueueScheduler:
        """The queue, for reading."""
        return self._queue

    @property
    def held(self) -> int:
        """Nodes that are held, idle."""
        return self._held

    def handle(self, event: Event) -> tuple[Command, ...]:
        """What follows from an event."""
        if isinstance(event, Answered):
            if self._resting is None:
                raise CoschedError(f"domain {self.name}: an answer, and nothing was asked")
            self._now_ns = max(self._now_ns, event.now_ns)
            self._go_on(self._resting, event.answer)
        elif self._resting is None:
            self._begin(event)
        elif isinstance(event, Asked) and (answer := self._meanwhile(event)) is not None:
            self._commands.append(Reply(event.by, answer))
        else:
            self._kept.append(event)
        while self._resting is None and self._kept:
            self._begin(self._kept.popleft())
        commands = tuple(self._commands)
        self._commands.clear()
        return commands

    def _begin(self, event: Event) -> None:
        self._now_ns = max(self._now_ns, event.now_ns)
        if isinstance(event, Ticked):
            self._go_on(self._tick(), None)
        elif isinstance(event, Asked):
            self._commands.append(Reply(event.by, self._answer(event.request)))
        elif isinstance(event, JobSubmitted):
            self._queue.handle(event)
            self._members.submit(event.job)
        elif isinstance(event, JobEnded):
            self._queue.handle(event)
            self._members.forget(event.number)
        elif isinstance(event, JobAnnounced):
            if self.name not in event.group.members:
                raise CoschedError(
                    f"job {event.number} is announced to domain {self.name}, "
                    f"but group '{event.group.name}' has no job there"
                )
            self._members.announce(event.number, event.group)
        else:
            raise TypeError(f"not an event of a coupled domain: {event!r}")

    def _go_on(self, work: Work, answer: Answer | None) -> None:
        """Works until the next question, or the end."""
        try:
            ask = work.send(answer)
        except StopIteration:
            self._resting = None
            return
        self._resting = work
        self.counts.asked += 1
        self._commands.append(ask)

    def _meanwhile(self, event: Asked) -> Answer | None:
        """What can be said while a pass rests; None: nothing yet."""
        request = event.request
        if isinstance(request, (GetMateJobId, GetMateStatus)):
            return self._answer(request)
        if event.by > self.name and isinstance(request, (TryStartMate, TryHoldMate)):
            self.counts.busy += 1
            return Done(yes=False)
        return None

    # --- questions of other domains ---

    def _answer(self, request: Request) -> Answer:
        if isinstance(request, GetMateJobId):
            member = self._members.of_group(request.group)
            if member is None or not self._settings.enabled:
                return MateJobId(None)
            return MateJobId(member.number)
        if isinstance(request, GetMateStatus):
            return self._members.status(request.number)
        if isinstance(request, MateStarted):
            return Done(yes=self._mate_started(request))
        mate = self._members.get(request.number)
        if mate is None or not mate.waits():
            return Done(yes=False)
        if isinstance(request, TryStartMate):
            return Done(yes=self._start_held(mate) or self._try(mate, self._start_asked))
        if isinstance(request, TryHoldMate):
            return Done(yes=self._pin(mate))
        if isinstance(request, StartMate):
            return Done(yes=self._start_held(mate))
        if isinstance(request, PromiseMate):
            return Done(yes=self._promise(mate, request.by_ns))
        return Done(yes=self._let_go(mate))

    def _pin(self, mate: Member) -> bool:
        """The mate holds, whether it did before or can now."""
        if mate.state is not MateState.HOLDING and (
            self._members.promised() or not self._try(mate, self._hold)
        ):
            return False
        mate.pinned = True
        return True

    def _try(self, mate: Member, take: Callable[[Job], None]) -> bool:
        """A pass without the other jobs of groups; whether the mate was taken."""
        self.counts.tries += 1
        if mate.job is None or mate.job.size > self._queue.free:
            self.counts.tries_refused += 1
            return False
        others = {
            member.number
            for member in self._members.waiting.values()
            if member is not mate
            and member.state is MateState.QUEUING
            and member.promised_ns is None
        }
        taken = False
        for job in self._queue.offers(self._now_ns, self._rules(left_out=others)):
            if job is mate.job:
                taken = True
                take(job)
            else:
                self._start(job)
        return taken

    def _start_asked(self, job: Job) -> None:
        self.counts.started_by_mate += 1
        self._start(job)

    def _start_held(self, mate: Member) -> bool:
        if mate.state is not MateState.HOLDING or mate.job is None:
            return False
        self._held -= mate.job.size
        nodes = self._queue.restart(mate.job, self._now_ns)
        self.counts.started_by_mate += 1
        self._members.start(mate.number, self._now_ns)
        self._commands.append(StartJob(mate.job, nodes))
        return True

    def _let_go(self, mate: Member) -> bool:
        mate.promised_ns = None
        mate.pinned = False
        if mate.state is MateState.HOLDING and not mate.own_hold:
            self._release(mate)
        return True

    def _promise(self, mate: Member, by_ns: int) -> bool:
        """Only one at a time, since backfill never delays the first job of the queue but
        may delay others; and not beside held nodes, of which nobody knows when they will
        be free."""
        job = mate.job
        if job is None or self._held or self._members.promised():
            return False
        if self._queue.expected_ns(job.size, self._now_ns) > by_ns:
            return False
        self.counts.promises += 1
        mate.promised_ns = by_ns
        return True

    def _mate_started(self, request: MateStarted) -> bool:
        member = self._members.of_group(request.group)
        if member is None:
            return False
        member.due_ns = request.since_ns + member.group.delay_ns
        self._wake_up(self._now_ns)
        return True

    # --- our own passes ---

    def _tick(self) -> Work:
        now_ns, release_ns, pause_ns = self._now_ns, self._release_due_ns, self._pause_ns
        if release_ns is not None and now_ns >= release_ns:
            yield from self._release_all()
        elif pause_ns is not None and now_ns < pause_ns:
            yield from self._pass(self._rules(last=self._released), may_wait=False)
        else:
            yield from self._hold_again()
        self._wake_up(self._now_ns + 1)

    def _release_all(self) -> Work:
        released = set()
        for member in self._members.waiting.values():
            if member.state is not MateState.HOLDING:
                continue
            if member.pinned:
                member.pinned = False  # whoever asked for it has until the next time
                continue
            self._release(member)
            released.add(member.number)
        self._released = frozenset(released)
        self._release_due_ns = None
        waiting = self._members.waiting.values()
        pause = any(len(member.group.members) > 2 for member in waiting)
        if pause:
            self._pause_ns = self._now_ns + self._settings.pause_ns
        if pause or self._settings.match_first:
            yield from self._pass(self._rules(last=self._released), may_wait=False)
        if not pause:
            yield from self._hold_again()

    def _hold_again(self) -> Work:
        """An ordinary pass; the first after a release has those released at the end."""
        rules = self._rules(last=self._released)
        self._released = frozenset()
        self._pause_ns = None
        yield from self._pass(rules, may_wait=True)

    def _pass(self, rules: PassRules, may_wait: bool) -> Work:
        """``may_wait``: jobs that cannot start may hold or count a yield."""
        offers = self._queue.offers(self._now_ns, rules)
        taken: bool | None = None
        while True:
            try:
                job = offers.send(taken)
            except StopIteration:
                return
            member = self._members.get(job.number) if self._settings.enabled else None
            if member is None:
                self._start(job)
                taken = True
            else:
                taken = yield from self._consider(member, job, may_wait)

    def _consider(
        self, member: Member, job: Job, may_wait: bool
    ) -> Generator[Ask, Answer | None, bool]:
        """RunJob: the job starts or holds (True), or is declined (False)."""
        group = member.group
        if member.promised_ns is None:
            verdict = yield from run_job(group, self.name, self._now_ns)
            if verdict.outcome is Outcome.NOT_DUE:
                self.counts.not_due += 1
                member.due_ns = verdict.due_ns
                return False
            if verdict.outcome is Outcome.MATE_NOT_READY:
                if not may_wait:
                    return False
                return self._hold_or_yield(member, job)
        elif self._now_ns > member.promised_ns:
            self.counts.promises_broken += 1
        self._start(job)
        if group.timing is Timing.AFTER and self.name == group.leader:
            for name in group.members:
                if name != self.name:
                    yield Ask(name, MateStarted(group.name, self._now_ns))
        return True

    def _hold_or_yield(self, member: Member, job: Job) -> bool:
        settings = self._settings
        holds = settings.scheme is Scheme.HOLD
        if not holds and settings.yield_cap is not None:
            holds = member.yields >= settings.yield_cap
            self.counts.holds_by_yield_cap += holds
        if holds and self._members.promised():
            holds = False
        elif holds and self._held + job.size > settings.held_cap * self._queue.capacity:
            self.counts.yields_by_held_cap += 1
            holds = False
        if holds:
            self._hold(job)
            member.own_hold = True
            return True
        member.yields += 1
        self.counts.yields += 1
        self._commands.append(YieldJob(job))
        return False

    def _rules(
        self,
        left_out: frozenset[JobId] | set[JobId] = frozenset(),
        last: frozenset[JobId] = frozenset(),
    ) -> PassRules:
        raised: dict[JobId, int] = {}
        promised: list[JobId] = []
        for member in self._members.waiting.values():
            if member.state is not MateState.QUEUING:
                continue
            if member.promised_ns is not None:
                promised.append(member.number)
            elif self._settings.raise_by and member.yields:
                raised[member.number] = member.yields * self._settings.raise_by
        if not (left_out or last or raised or promised):
            return NO_RULES
        return PassRules(promised, last, left_out, raised)

    # --- what happens to a job ---

    def _start(self, job: Job) -> None:
        nodes = self._queue.occupy(job, self._now_ns)
        self._members.start(job.number, self._now_ns)
        self._commands.append(StartJob(job, nodes))

    def _hold(self, job: Job) -> None:
        nodes = self._queue.occupy(job, self._now_ns)
        self._held += job.size
        self.counts.holds += 1
        self._members[job.number].state = MateState.HOLDING
        self._commands.append(HoldJob(job, nodes))

    def _release(self, member: Member) -> None:
        job = member.job
        if job is None:
            raise CoschedError(f"job {member.number} is to give nodes back but has none")
        self._queue.restore(job)
        self._held -= job.size
        self.counts.releases += 1
        member.state = MateState.QUEUING
        member.own_hold = False
        self._commands.append(ReleaseJob(job))

    def _wake_up(self, from_ns: int) -> None:
        """Says when the next pass is due even if nothing happens before."""
        wishes = []
        period_ns = self._settings.release_ns if self._settings.enabled else None
        if period_ns is None or not self._members.waiting:
            self._release_due_ns = None
        else:
            if self._release_due_ns is None:
                self._release_due_ns = (self._now_ns // period_ns + 1) * period_ns
            wishes.append(self._release_due_ns)
        wishes += [
            member.due_ns
            for member in self._members.waiting.values()
            if member.due_ns is not None
            and member.due_ns >= from_ns
            and member.state is MateState.QUEUING
        ]
        if self._pause_ns is not None:
            wishes.append(self._pause_ns)
        planned_ns = self._queue.planner.wake_ns()
        if planned_ns is not None:
            wishes.append(planned_ns)
        wake_ns = min(wishes, default=None)
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            self._commands.append(WakeAt(wake_ns))
