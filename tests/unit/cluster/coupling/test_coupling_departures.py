"""Checks that no job waits for a mate that began without it, or that is over."""

from __future__ import annotations

import pytest

from cosched.core.cluster.coupling.engine_messages import (
    Found,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    PeerLost,
    Received,
)
from cosched.core.cluster.coupling.groups import Group, Timing
from cosched.core.cluster.coupling.mate_messages import (
    Alive,
    Answer,
    Cause,
    Departed,
    Done,
    LeaderStatus,
    NotReady,
    Ping,
    Unknown,
)
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme, WhenDown
from tests.unit.cluster.coupling.coupled_faults import PATIENCE, Faults, Site, World
from tests.unit.cluster.coupling.test_coupling_machine import (
    AFTER,
    SECOND,
    Domain,
    reserve_asked,
    restarted,
)

LONG = 5000


def world_of_two(scheme, group):
    """Domain a runs a long job and has a job of the group behind it; domain b is idle."""
    world = World(0, Faults(slowest=1), calm_ns=0)
    settings = CouplingSettings(scheme=scheme, release_ns=2 * LONG, patience=PATIENCE)
    for name in "ab":
        Site(world, name, 2, settings, skew=0)
    world.at(0, lambda: world.sites["a"].submit(100, 2, LONG, None))
    for name in "ab":
        world.at(10, lambda site=world.sites[name]: site.submit(0, 2, 50, group))
    return world


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("timing", [Timing.TOGETHER, Timing.WITHIN, Timing.AFTER])
def test_idle_domain_starts_its_job_once_the_mate_is_cancelled(scheme, timing):
    leader = "a" if timing is Timing.AFTER else ""
    world = world_of_two(scheme, Group("g", ("a", "b"), timing, 20, leader))
    world.at(1000, lambda: world.sites["a"].cancel(0))
    world.run(LONG // 2)
    (began,) = world.sites["b"].tasks[0].began
    assert 1000 < began < 1000 + 2 * PATIENCE.retry_ns


def begun_alone():
    domain = Domain(when_down=WhenDown.START)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    domain.feed(JobPrepared(0, 1))
    return domain


def departed(domain):
    (question,) = domain.sent(Departed)
    return question


def test_domain_that_is_back_gets_the_report_of_a_job_that_began_alone():
    domain = begun_alone()
    departed(domain)
    domain.tick(3600 * SECOND)
    assert not domain.sent(Departed)
    (ping,) = domain.sent(Ping)  # though no job of this domain waits
    domain.answer(ping, Alive())
    domain.answer(departed(domain), Done())
    domain.tick(3600 * SECOND)
    assert not domain.sent(Departed)
    assert not domain.sent(Ping)


@pytest.mark.parametrize("answer", [Done(), Unknown()])
def test_report_outlives_restarts_until_it_is_confirmed(answer):
    domain = begun_alone()
    for _ in range(2):
        restarted(domain, Found.RUNS)
        question = departed(domain)
    domain.answer(question, answer)
    restarted(domain, Found.RUNS)
    assert not domain.sent(Departed)


def test_job_that_vanished_while_the_controller_was_away_has_departed():
    domain = Domain()
    restarted(domain, None)
    departed(domain)


def test_job_reports_its_departure_once():
    domain = Domain()
    domain.feed(JobOver(0, 1))
    departed(domain)
    domain = begun_alone()
    domain.feed(JobOver(0, 1))
    assert not domain.sent(Departed)  # it was reported at its start


@pytest.mark.parametrize("scheme", list(Scheme))
def test_job_that_waits_asks_again_when_its_mate_departs(scheme):
    domain = Domain(scheme=scheme)
    domain.ready()
    domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    domain.ask(Departed())
    assert domain.answers() == [Done()]
    domain.tick(0)
    if scheme is Scheme.YIELD:
        assert domain.coupling.rules().left_out == ()
        domain.ready()
    reserve_asked(domain)


def test_follower_asks_again_when_its_queued_leader_is_cancelled():
    domain = Domain("b", group=AFTER)
    domain.feed(JobOver(0, 1))
    follower = Domain(group=AFTER)
    follower.ready()
    (question,) = follower.sent(LeaderStatus)
    follower.answer(question, NotReady(Cause.UNSUBMITTED))
    (report,) = [c.message for c in domain.last if hasattr(c, "to")]
    follower.feed(Received(0, "b", report))
    assert follower.coupling.rules().left_out == ()


def test_departure_of_a_stranger_changes_nothing():
    domain = Domain()
    domain.ready()
    domain.answer(reserve_asked(domain), NotReady(Cause.NODES))
    domain.ask(Departed(), digest="0" * 64)
    assert not isinstance(domain.answers()[0], Done)
    domain.tick(0)
    assert not any(isinstance(c, JobReady | JobQueued | Answer) for c in domain.last)
