"""Decides whether a ready job starts: RunJob, Algorithm 1 of Tang et al. (IPDPS 2011).

``run_job`` is a dialogue: it yields requests to other domains, receives the answers (None:
the domain is down), and returns a verdict. The caller then starts, holds or yields.

    mate holding            start both                          lines 6 to 9
    mate queuing            try to start it; if it did, start   lines 10 to 15
    mate unsubmitted        the same; it never starts
    mate not started        hold or yield                       lines 16 to 24
    mate unknown, running, or its domain down: start            lines 25, 34 to 36

One change of order: a holding mate starts before the job itself. On real machines the mate
may have been released meanwhile, and then the job must not start alone.

Groups of more than two (the paper's future work): starting the mates one by one could leave
some running when the last cannot start. So each mate is first asked to hold. If all hold,
all start; otherwise the holds are withdrawn. A domain keeps such a hold for at least one
release period, so the dialogue must end within that time.

Constraints (also future work). WITHIN: a mate that cannot start now may promise to start
in time. With a delay of 0 there is no promise. AFTER: the leader starts at any time, and
the other jobs start after it has run for the delay.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from cosched.core.cluster.coupling.messages import Ask, Group, Timing
from cosched.core.cluster.coupling.protocol import (
    Answer,
    DomainName,
    Done,
    GetMateJobId,
    GetMateStatus,
    GroupName,
    MateJobId,
    MateState,
    MateStatus,
    PromiseMate,
    ReleaseMate,
    Request,
    StartMate,
    TryHoldMate,
    TryStartMate,
)
from cosched.core.cluster.queue.messages import JobId

Dialogue: TypeAlias = "Generator[Ask, Answer | None, Verdict]"

#: The order of the requests to hold: the least ready state first.
_WAITING = (MateState.UNSUBMITTED, MateState.QUEUING, MateState.HOLDING)


class Outcome(Enum):
    """The next step of a ready job."""

    START = auto()
    MATE_NOT_READY = auto()  #: hold or yield
    NOT_DUE = auto()  #: too early, for any state of its mates


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome. due_ns: when a job that is not due will be due; None if unknown."""

    outcome: Outcome
    due_ns: int | None = None


START = Verdict(Outcome.START)
MATE_NOT_READY = Verdict(Outcome.MATE_NOT_READY)


@dataclass(frozen=True, slots=True)
class _Mate:
    domain: DomainName
    number: JobId
    status: MateStatus


def run_job(group: Group, own: DomainName, now_ns: int) -> Dialogue:
    """Returns the verdict on a ready job of ``group`` in the domain ``own``."""
    if group.timing is Timing.AFTER:
        return (yield from _after_leader(group, own, now_ns))
    mates = yield from _waiting_mates(group, own)
    if not mates:
        return START
    if len(mates) == 1:
        return (yield from _with_one(mates[0], group, now_ns))
    return (yield from _with_several(mates, group, now_ns))


def _waiting_mates(
    group: Group, own: DomainName
) -> Generator[Ask, Answer | None, list[_Mate]]:
    """Returns the mates that this job must wait for: known and not running."""
    mates = []
    for domain in group.members:
        if domain == own:
            continue
        mate = yield from _look_up(group.name, domain)
        if mate is not None and mate.status.state in _WAITING:
            mates.append(mate)
    return mates


def _look_up(
    group: GroupName, domain: DomainName
) -> Generator[Ask, Answer | None, _Mate | None]:
    found = yield Ask(domain, GetMateJobId(group))
    if not isinstance(found, MateJobId) or found.number is None:
        return None
    status = yield Ask(domain, GetMateStatus(found.number))
    if not isinstance(status, MateStatus):
        return None
    return _Mate(domain, found.number, status)


def _done(mate: _Mate, request: Request) -> Generator[Ask, Answer | None, bool | None]:
    """Returns whether the mate's domain carried it out; None if it is down."""
    answer = yield Ask(mate.domain, request)
    return answer.yes if isinstance(answer, Done) else None


def _may_promise(group: Group) -> bool:
    return group.timing is Timing.WITHIN and group.delay_ns > 0


def _with_one(mate: _Mate, group: Group, now_ns: int) -> Dialogue:
    number = mate.number
    if mate.status.state is MateState.HOLDING:
        started = yield from _done(mate, StartMate(number))
    else:
        started = yield from _done(mate, TryStartMate(number))
    if started is False and _may_promise(group):
        started = yield from _done(mate, PromiseMate(number, now_ns + group.delay_ns))
    return MATE_NOT_READY if started is False else START


def _with_several(mates: list[_Mate], group: Group, now_ns: int) -> Dialogue:
    holding: list[_Mate] = []
    promised: list[_Mate] = []
    for mate in sorted(mates, key=lambda mate: _WAITING.index(mate.status.state)):
        number = mate.number
        held = yield from _done(mate, TryHoldMate(number))
        if held:
            holding.append(mate)
        elif held is False:
            by_ns = now_ns + group.delay_ns
            if _may_promise(group) and (yield from _done(mate, PromiseMate(number, by_ns))):
                promised.append(mate)
                continue
            return (yield from _withdraw([*holding, *promised]))
    for place, mate in enumerate(holding):
        started = yield from _done(mate, StartMate(mate.number))
        if started is False and not place:  # it holds no more, and no mate runs yet
            return (yield from _withdraw([*holding[1:], *promised]))
    return START


def _withdraw(mates: list[_Mate]) -> Dialogue:
    for mate in mates:
        yield from _done(mate, ReleaseMate(mate.number))
    return MATE_NOT_READY


def _after_leader(group: Group, own: DomainName, now_ns: int) -> Dialogue:
    if own == group.leader:
        return START
    mate = yield from _look_up(group.name, group.leader)
    if mate is None or mate.status.state is MateState.UNKNOWN:
        return START
    if mate.status.state is not MateState.RUNNING or mate.status.since_ns is None:
        return Verdict(Outcome.NOT_DUE)
    due_ns = mate.status.since_ns + group.delay_ns
    return START if now_ns >= due_ns else Verdict(Outcome.NOT_DUE, due_ns)
