"""Runs one of several coupled domains as a pure state machine.

``CoupledScheduler`` makes the passes of its ``QueueScheduler`` and calls ``run_job``
between "ready" and "start". When that asks another domain, the pass is suspended until the
answer comes. A domain has its own settings and jobs. About other domains it has only their
answers.

Holding jobs release their nodes at each multiple of ``release_ns``, and come last in the
next pass (section IV.E.1). Backfill counts holding jobs as running.

During a suspended pass, requests that do not change the queue are answered at once. A
request to try a job is refused if the other domain's name is greater than this one's.
Otherwise it is kept until the pass is over. So two domains never wait for each other: if
they try each other's mates at the same time, one succeeds.

Invariants after every event without a suspended pass: the invariants of the queue. A job
holds only while a mate waits. The jobs of a group without constraint start together, within
the time of their messages, unless a domain was down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TypeAlias

from cosched.core.cluster.coupling.mates import Mates
from cosched.core.cluster.coupling.members import Member
from cosched.core.cluster.coupling.messages import (
    Answered,
    Ask,
    Asked,
    Command,
    Event,
    JobAnnounced,
    Reply,
    Scheme,
    Timing,
    YieldJob,
)
from cosched.core.cluster.coupling.protocol import (
    Answer,
    DomainName,
    Done,
    GetMateJobId,
    GetMateStatus,
    MateStarted,
    MateState,
    PromiseMate,
    ReleaseMate,
    StartMate,
)
from cosched.core.cluster.coupling.run_job import Outcome, run_job
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.coupling.state import Counts, DomainState
from cosched.core.cluster.queue.conservative import Conservative
from cosched.core.cluster.queue.messages import (
    Job,
    JobEnded,
    JobId,
    JobSubmitted,
    Ticked,
    WakeAt,
)
from cosched.core.cluster.queue.nodes import Intervals
from cosched.core.cluster.queue.planner import PassRules
from cosched.core.cluster.queue.scheduler import Policy, QueueScheduler
from cosched.core.errors import CoschedError

#: A pass that may ask other domains; the caller sends it the answers.
Work: TypeAlias = "Generator[Ask, Answer | None, None]"


class CoupledScheduler:
    """Decides when the jobs of one coupled domain start. Deterministic, without a clock."""

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
        self._state = DomainState(name, settings, QueueScheduler(nodes, policy))
        self._mates = Mates(self._state)
        self._release_due_ns: int | None = None
        self._released: frozenset[JobId] = frozenset()  # last in the next pass
        self._pause_ns: int | None = None  # no job holds until then
        self._wake_ns: int | None = None
        self._suspended: Work | None = None
        self._kept: deque[Event] = deque()
        self._to_release: deque[ReleaseMate] = deque()

    @property
    def counts(self) -> Counts:
        """Returns how often each branch was taken."""
        return self._state.counts

    @property
    def queue(self) -> QueueScheduler:
        """Returns the queue, for reading."""
        return self._state.queue

    @property
    def held(self) -> int:
        """Returns the number of held nodes, which are idle."""
        return self._state.held

    def handle(self, event: Event) -> tuple[Command, ...]:
        """Takes one event and returns the commands."""
        self._state.now_ns = max(self._state.now_ns, event.now_ns)
        if isinstance(event, Answered):
            if self._suspended is None:
                raise CoschedError(f"domain {self.name}: an answer without a request")
            self._continue(self._suspended, event.answer)
        elif self._suspended is None:
            self._begin(event)
        elif isinstance(event, Asked) and (answer := self._meanwhile(event)) is not None:
            self._reply(event, answer)
        else:
            self._kept.append(event)
        while self._suspended is None and (self._to_release or self._kept):
            if self._to_release:
                self._mates.answer(self._to_release.popleft())
            else:
                self._begin(self._kept.popleft())
        commands = tuple(self._state.commands)
        self._state.commands.clear()
        return commands

    def _begin(self, event: Event) -> None:
        if isinstance(event, Ticked):
            self._continue(self._tick(), None)
        elif isinstance(event, Asked):
            self._reply(event, self._mates.answer(event.request))
        elif isinstance(event, JobSubmitted):
            self._state.queue.handle(event)
            self._state.members.submit(event.job)
        elif isinstance(event, JobEnded):
            self._state.queue.handle(event)
            self._state.members.forget(event.number)
        elif isinstance(event, JobAnnounced):
            if self.name not in event.group.members:
                raise CoschedError(
                    f"job {event.number} is announced to domain {self.name}, "
                    f"but group '{event.group.name}' has no job there"
                )
            self._state.members.announce(event.number, event.group)
        else:
            raise TypeError(f"not an event of a coupled domain: {event!r}")

    def _continue(self, work: Work, answer: Answer | None) -> None:
        """Continues a pass until its next request, or its end."""
        try:
            ask = work.send(answer)
        except StopIteration:
            self._suspended = None
            return
        self._suspended = work
        self._state.counts.asked += 1
        self._state.commands.append(ask)

    def _meanwhile(self, event: Asked) -> Answer | None:
        """Returns the answer during a suspended pass; None if it must wait.

        Nothing here may change the queue, because the planner is still reading it.
        """
        request = event.request
        if isinstance(request, (GetMateJobId, GetMateStatus, StartMate, MateStarted)):
            return self._mates.answer(request)
        if isinstance(request, ReleaseMate):
            self._to_release.append(request)
            return Done(yes=True)
        if event.by > self.name or isinstance(request, PromiseMate):
            self._state.counts.busy += 1
            return Done(yes=False)
        return None

    def _reply(self, event: Asked, answer: Answer) -> None:
        self._state.commands.append(Reply(event.by, answer))
        if isinstance(event.request, MateStarted):
            self._wake_up(self._state.now_ns)
        elif isinstance(event.request, ReleaseMate):
            # A withdrawn promise needs no pass. Otherwise domains that promise and
            # withdraw alternately would make endless passes at one moment.
            self._wake_up(self._state.now_ns)
        elif isinstance(event.request, PromiseMate) and answer == Done(yes=True):
            # Promised jobs go first, so the job may fit now. Perhaps no other event comes.
            self._wake_ns = self._state.now_ns
            self._state.commands.append(WakeAt(self._wake_ns))

    # --- passes of this domain ---

    def _tick(self) -> Work:
        now_ns = self._state.now_ns
        release_ns, pause_ns = self._release_due_ns, self._pause_ns
        if release_ns is not None and now_ns >= release_ns:
            yield from self._release_all()
        elif pause_ns is not None and now_ns < pause_ns:
            yield from self._pass(self._state.rules(last=self._released), may_wait=False)
        else:
            yield from self._hold_again()
        self._wake_up(self._state.now_ns + 1)

    def _release_all(self) -> Work:
        released = set()
        for member in self._state.members.waiting.values():
            if member.state is not MateState.HOLDING:
                continue
            if member.pinned:
                member.pinned = False  # the asking domain has until the next release
                continue
            self._state.release(member)
            released.add(member.number)
        self._released = frozenset(released)
        self._release_due_ns = None
        waiting = self._state.members.waiting.values()
        pause = any(len(member.group.members) > 2 for member in waiting)
        if pause:
            self._pause_ns = self._state.now_ns + self._state.settings.pause_ns
        if pause or self._state.settings.match_first:
            yield from self._pass(self._state.rules(last=self._released), may_wait=False)
        if not pause:
            yield from self._hold_again()

    def _hold_again(self) -> Work:
        """Makes an ordinary pass; the first after a release has the released jobs last."""
        rules = self._state.rules(last=self._released)
        self._released = frozenset()
        self._pause_ns = None
        yield from self._pass(rules, may_wait=True)

    def _pass(self, rules: PassRules, may_wait: bool) -> Work:
        """Makes a pass. ``may_wait``: a job that cannot start may hold or yield."""
        state = self._state
        offers = state.queue.offers(state.now_ns, rules)
        taken: bool | None = None
        while True:
            try:
                job = offers.send(taken)
            except StopIteration:
                return
            member = state.members.get(job.number) if state.settings.enabled else None
            if member is None:
                state.start(job)
                taken = True
            else:
                taken = yield from self._consider(member, job, may_wait)

    def _consider(
        self, member: Member, job: Job, may_wait: bool
    ) -> Generator[Ask, Answer | None, bool]:
        """Applies RunJob; returns True if the job starts or holds, False if declined."""
        group = member.group
        if member.promised_ns is None:
            verdict = yield from run_job(group, self.name, self._state.now_ns)
            if verdict.outcome is Outcome.NOT_DUE:
                self._state.counts.not_due += 1
                member.due_ns = verdict.due_ns
                return False
            if verdict.outcome is Outcome.MATE_NOT_READY:
                if not may_wait:
                    return False
                return self._hold_or_yield(member, job)
        elif self._state.now_ns > member.promised_ns:
            self._state.counts.promises_broken += 1
        self._state.start(job)
        if group.timing is Timing.AFTER and self.name == group.leader:
            for name in group.members:
                if name != self.name:
                    yield Ask(name, MateStarted(group.name, self._state.now_ns))
        return True

    def _hold_or_yield(self, member: Member, job: Job) -> bool:
        state = self._state
        settings = state.settings
        by_cap = (
            settings.scheme is Scheme.YIELD
            and settings.yield_cap is not None
            and member.yields >= settings.yield_cap
        )
        holds = settings.scheme is Scheme.HOLD or by_cap
        if holds and state.members.promised():
            holds = False
        elif holds and state.held + job.size > settings.held_cap * state.queue.capacity:
            state.counts.yields_by_held_cap += 1
            holds = False
        if holds:
            state.hold(job)
            state.counts.holds_by_yield_cap += by_cap
            member.own_hold = True
            return True
        member.yields += 1
        state.counts.yields += 1
        state.commands.append(YieldJob(job))
        return False

    def _wake_up(self, from_ns: int) -> None:
        """Orders the next pass, in case no event comes before."""
        state = self._state
        times_ns = []
        period_ns = state.settings.release_ns if state.settings.enabled else None
        if period_ns is None or not state.members.waiting:
            self._release_due_ns = None
        else:
            if self._release_due_ns is None:
                self._release_due_ns = (state.now_ns // period_ns + 1) * period_ns
            times_ns.append(self._release_due_ns)
        times_ns += [
            member.due_ns
            for member in state.members.waiting.values()
            if member.due_ns is not None
            and member.due_ns >= from_ns
            and member.state is MateState.QUEUING
        ]
        if self._pause_ns is not None:
            times_ns.append(self._pause_ns)
        planned_ns = state.queue.planner.wake_ns()
        if planned_ns is not None:
            times_ns.append(planned_ns)
        # A pass with slow answers may end after the next pass was due.
        wake_ns = max(min(times_ns), state.now_ns) if times_ns else None
        if wake_ns != self._wake_ns:
            self._wake_ns = wake_ns
            state.commands.append(WakeAt(wake_ns))
