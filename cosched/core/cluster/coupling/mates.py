"""Answers the requests of other domains about the jobs of this domain."""

from __future__ import annotations

from collections.abc import Callable

from cosched.core.cluster.coupling.members import Member
from cosched.core.cluster.coupling.protocol import (
    Answer,
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
from cosched.core.cluster.coupling.state import DomainState
from cosched.core.cluster.queue.messages import Job


class Mates:
    """The jobs of one domain, as mates of jobs in other domains."""

    def __init__(self, state: DomainState) -> None:
        self._state = state

    def answer(self, request: Request) -> Answer:
        """Carries out a request between passes; returns the answer."""
        state = self._state
        if isinstance(request, GetMateJobId):
            member = state.members.of_group(request.group)
            if member is None or not state.settings.enabled:
                return MateJobId(None)
            return MateJobId(member.number)
        if isinstance(request, GetMateStatus):
            return state.members.status(request.number)
        if isinstance(request, MateStarted):
            return Done(yes=self._mate_started(request))
        mate = state.members.get(request.number)
        if mate is None or not mate.waits():
            return Done(yes=False)
        if isinstance(request, TryStartMate):
            return Done(yes=state.start_held(mate) or self._try(mate, state.start_asked))
        if isinstance(request, TryHoldMate):
            return Done(yes=self._pin(mate))
        if isinstance(request, StartMate):
            return Done(yes=state.start_held(mate))
        if isinstance(request, PromiseMate):
            return Done(yes=self._promise(mate, request.by_ns))
        return Done(yes=self._withdraw(mate))

    def _pin(self, mate: Member) -> bool:
        """Makes the mate hold its nodes; returns whether it holds."""
        state = self._state
        if mate.state is not MateState.HOLDING and (
            state.members.promised() or not self._try(mate, state.hold)
        ):
            return False
        mate.pinned = True
        return True

    def _try(self, mate: Member, take: Callable[[Job], None]) -> bool:
        """Makes a pass without other jobs of groups; returns whether the mate was taken."""
        state = self._state
        state.counts.tries += 1
        if mate.job is None or mate.job.size > state.queue.free:
            state.counts.tries_refused += 1
            return False
        others = {
            member.number
            for member in state.members.waiting.values()
            if member is not mate
            and member.state is MateState.QUEUING
            and member.promised_ns is None
        }
        taken = False
        for job in state.queue.offers(state.now_ns, state.rules(left_out=others)):
            if job is mate.job:
                taken = True
                take(job)
            else:
                state.start(job)
        return taken

    def _withdraw(self, mate: Member) -> bool:
        mate.promised_ns = None
        mate.pinned = False
        if mate.state is MateState.HOLDING and not mate.own_hold:
            self._state.release(mate)
        return True

    def _promise(self, mate: Member, by_ns: int) -> bool:
        """Promises a start by ``by_ns`` if that is safe; returns whether it did.

        There is one promise at a time, because backfill protects only the first job of the
        queue. There is none beside held nodes, because their release time is unknown."""
        state = self._state
        job = mate.job
        if job is None or state.held or state.members.promised():
            return False
        if state.queue.expected_ns(job.size, state.now_ns) > by_ns:
            return False
        state.counts.promises += 1
        mate.promised_ns = by_ns
        return True

    def _mate_started(self, request: MateStarted) -> bool:
        state = self._state
        member = state.members.of_group(request.group)
        if member is None:
            return False
        # A late message, or a short delay: the job is due at once.
        due_ns = request.since_ns + member.group.delay_ns
        member.due_ns = max(due_ns, state.now_ns)
        return True
