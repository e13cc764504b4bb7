"""Tests Algorithm 1 line by line: the requests and the verdict."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cosched.core.cluster.coupling.messages import (
    Ask,
    Asked,
    Group,
    JobAnnounced,
    Scheme,
    Timing,
)
from cosched.core.cluster.coupling.protocol import (
    Done,
    GetMateJobId,
    GetMateStatus,
    MateJobId,
    MateStarted,
    MateState,
    MateStatus,
    PromiseMate,
    ReleaseMate,
    StartMate,
    TryHoldMate,
    TryStartMate,
)
from cosched.core.cluster.coupling.run_job import Outcome, Verdict, run_job
from cosched.core.cluster.coupling.scheduler import CoupledScheduler
from cosched.core.cluster.coupling.settings import CouplingSettings
from cosched.core.cluster.queue.messages import Job, JobSubmitted, Ticked, WakeAt
from cosched.core.cluster.queue.scheduler import POLICIES
from cosched.core.errors import CoschedError

PAIR = Group("g", ("a", "b"))
THREE = Group("g", ("a", "b", "c"))
START = Verdict(Outcome.START)
NOT_READY = Verdict(Outcome.MATE_NOT_READY)


def talk(group, answers, now=100):
    """Returns the requests of domain a for these answers, and its verdict."""
    dialogue = run_job(group, "a", now)
    asked, left = [], list(answers)
    try:
        ask = next(dialogue)
        while True:
            asked.append((ask.to, ask.request))
            ask = dialogue.send(left.pop(0))
    except StopIteration as end:
        assert not left
        return asked, end.value


def known(state, since=None):
    return [MateJobId(7), MateStatus(state, since)]


LOOKED_UP = [("b", GetMateJobId("g")), ("b", GetMateStatus(7))]


@pytest.mark.parametrize(
    ("answers", "then", "verdict"),
    [
        ([None], [], START),  # the other domain is down
        ([MateJobId(None)], [], START),
        ([MateJobId(7), None], [], START),
        (known(MateState.UNKNOWN), [], START),
        (known(MateState.RUNNING, 50), [], START),
        ([*known(MateState.HOLDING), Done(True)], [StartMate(7)], START),
        ([*known(MateState.HOLDING), Done(False)], [StartMate(7)], NOT_READY),
        ([*known(MateState.QUEUING), Done(True)], [TryStartMate(7)], START),
        ([*known(MateState.QUEUING), Done(False)], [TryStartMate(7)], NOT_READY),
        ([*known(MateState.QUEUING), None], [TryStartMate(7)], START),
        ([*known(MateState.UNSUBMITTED), Done(False)], [TryStartMate(7)], NOT_READY),
    ],
)
def test_a_pair(answers, then, verdict):
    asked, found = talk(PAIR, answers)
    assert found == verdict
    looked_up = LOOKED_UP[: 1 if answers[0] in (None, MateJobId(None)) else 2]
    assert asked == looked_up + [("b", request) for request in then]


def test_group_of_three_all_hold_before_start():
    answers = [MateJobId(7), MateStatus(MateState.HOLDING)]
    answers += [MateJobId(8), MateStatus(MateState.QUEUING)]
    asked, verdict = talk(THREE, [*answers, *[Done(True)] * 4])
    assert verdict == START
    assert asked[4:] == [
        ("c", TryHoldMate(8)),
        ("b", TryHoldMate(7)),
        ("c", StartMate(8)),
        ("b", StartMate(7)),
    ]


def test_group_of_three_is_released_if_one_cannot_hold():
    answers = [MateJobId(7), MateStatus(MateState.QUEUING)]
    answers += [MateJobId(8), MateStatus(MateState.QUEUING)]
    asked, verdict = talk(THREE, [*answers, Done(True), Done(False), Done(True)])
    assert verdict == NOT_READY
    assert asked[4:] == [
        ("b", TryHoldMate(7)),
        ("c", TryHoldMate(8)),
        ("b", ReleaseMate(7)),
    ]


def test_within_asks_for_a_promise():
    group = Group("g", ("a", "b"), Timing.WITHIN, 30)
    for yes, verdict in ((True, START), (False, NOT_READY)):
        answers = [*known(MateState.QUEUING), Done(False), Done(yes)]
        asked, found = talk(group, answers)
        assert asked[-1] == ("b", PromiseMate(7, 130))
        assert found == verdict


def test_within_zero_requests_no_promise():
    group = Group("g", ("a", "b"), Timing.WITHIN, 0)
    asked, found = talk(group, [*known(MateState.QUEUING), Done(False)])
    assert not any(isinstance(request, PromiseMate) for _, request in asked)
    assert found == NOT_READY


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ([None], START),
        (known(MateState.UNKNOWN), START),
        (known(MateState.QUEUING), Verdict(Outcome.NOT_DUE)),
        (known(MateState.RUNNING, 90), Verdict(Outcome.NOT_DUE, 120)),
        (known(MateState.RUNNING, 70), START),
    ],
)
def test_follower_waits_for_its_leader(answers, verdict):
    group = Group("g", ("a", "b"), Timing.AFTER, 30, leader="b")
    assert talk(group, answers)[1] == verdict
    assert talk(Group("g", ("a", "b"), Timing.AFTER, 30, leader="a"), []) == ([], START)


def machine(**settings) -> CoupledScheduler:
    chosen = CouplingSettings(**settings)
    return CoupledScheduler("a", ((0, 3),), POLICIES["wfp"], chosen)


def test_invalid_input_is_refused():
    with pytest.raises(CoschedError, match="domain a: conservative backfill cannot hold"):
        CoupledScheduler("a", ((0, 3),), POLICIES["conservative"], CouplingSettings())
    domain = machine(scheme=Scheme.YIELD)
    with pytest.raises(CoschedError, match="group 'g' has no job there"):
        domain.handle(JobAnnounced(0, 1, Group("g", ("b", "c"))))
    domain.handle(JobAnnounced(0, 1, PAIR))
    with pytest.raises(CoschedError, match="job 2 cannot join group 'g': job 1 is in it"):
        domain.handle(JobAnnounced(0, 2, PAIR))
    with pytest.raises(CoschedError, match="job 1 belongs to a group already"):
        domain.handle(JobAnnounced(0, 1, Group("h", ("a", "b"))))
    with pytest.raises(TypeError, match="not an event of a coupled domain"):
        domain.handle(SimpleNamespace(now_ns=0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"held_cap": 1.5}, "held_cap 1.5"),
        ({"release_ns": 0}, "release_ns 0"),
        ({"yield_cap": -1}, "yield_cap -1"),
        ({"raise_by": -1}, "raise_by -1"),
        ({"pause_ns": 0}, "pause_ns 0"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(CoschedError, match=words):
        CouplingSettings(**settings)


@pytest.mark.parametrize("since_ns", [590, 601, 603])
def test_domain_wakes_up_at_once_if_its_leader_started(since_ns):
    """Another pass waits for an answer meanwhile. The wake-up was in the past, or never."""
    domain = CoupledScheduler("a", ((0, 3),), POLICIES["fcfs"], CouplingSettings())
    domain.handle(JobAnnounced(580, 1, Group("g", ("a", "b"))))
    follower = Group("h", ("a", "b"), Timing.AFTER, 0, leader="b")
    domain.handle(JobAnnounced(580, 2, follower))
    for number in (1, 2):
        domain.handle(JobSubmitted(580, Job(number, 2, 50, 580)))
    (ask,) = domain.handle(Ticked(601))
    assert ask == Ask("b", GetMateJobId("g"))
    _, wake = domain.handle(Asked(603, "b", MateStarted("h", since_ns)))
    assert wake == WakeAt(603)
