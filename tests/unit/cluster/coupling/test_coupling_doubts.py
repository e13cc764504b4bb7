"""Checks that no job starts alone because its mate's domain was down long ago."""

from __future__ import annotations

import pytest

from cosched.core.cluster.coupling.engine_messages import (
    JobAnnounced,
    JobOver,
    JobPrepared,
    JobQueued,
    JobReady,
    PeerLost,
    PrepareJob,
)
from cosched.core.cluster.coupling.groups import Group
from cosched.core.cluster.coupling.mate_messages import (
    Announce,
    Known,
    Ping,
    Reserve,
    Reserved,
)
from cosched.core.cluster.coupling.settings import CouplingSettings, WhenDown
from tests.unit.cluster.coupling.coupled_faults import PATIENCE, Faults, Site, World
from tests.unit.cluster.coupling.test_coupling_machine import (
    HOUR,
    SECOND,
    Domain,
    reserve_asked,
)

NEXT = Group("next", ("a", "b"))


def after_an_outage():
    """Domain b was down for a night, and no job has waited for it since."""
    domain = Domain(when_down=WhenDown.START)
    domain.feed(PeerLost(0, "b"))
    domain.ready()
    domain.feed(JobPrepared(0, 1))
    domain.feed(JobOver(0, 1))
    for _ in range(9):
        domain.tick(HOUR)
    assert domain.coupling.state.peers["b"].down
    return domain


def submit(domain, number=2):
    domain.feed(JobAnnounced(domain.now, 6, number, NEXT, "ann"))
    announced = domain.sent(Announce)
    domain.feed(JobQueued(domain.now, number, 1))
    return announced


def test_new_job_waits_for_the_answer_of_a_domain_that_was_down():
    domain = after_an_outage()
    (announced,) = submit(domain)
    assert domain.feed(JobReady(domain.now, 2)) == []
    (reserve,) = domain.sent(Reserve)
    domain.answer(announced, Known(812))
    assert not domain.coupling.state.peers["b"].down
    domain.answer(reserve, Reserved(domain.round()))
    assert domain.coupling.state.members[2].past.alone == ""


def test_domain_that_is_still_down_delays_a_new_job_as_long_as_a_first_silence():
    domain = after_an_outage()
    submit(domain)
    domain.feed(JobReady(domain.now, 2))
    assert domain.coupling.state.peers["b"].down  # for metrics it has not answered
    assert domain.tick(4 * SECOND) == []
    assert PrepareJob(2) in domain.tick(SECOND)
    assert domain.coupling.counts.peers_down == 1
    # The silence is a new one, so the next job does not wait.
    domain.feed(JobAnnounced(domain.now, 7, 3, Group("last", ("a", "b")), "ann"))
    domain.feed(JobQueued(domain.now, 3, 1))
    assert PrepareJob(3) in domain.feed(JobReady(domain.now, 3))


def test_domain_that_is_down_is_probed_as_soon_as_a_job_waits():
    """The pauses have grown to hours while no job waited."""
    domain = after_an_outage()
    submit(domain)
    pings = 0
    for _ in range(60):
        domain.tick(SECOND)
        pings += len(domain.sent(Ping))
    assert pings >= 8


def test_held_job_that_is_released_long_after_its_announcement_waits_too():
    domain = after_an_outage()
    domain.feed(JobAnnounced(domain.now, 6, 2, NEXT, "ann"))
    domain.tick(5 * SECOND)
    domain.now += HOUR
    domain.feed(JobQueued(domain.now, 2, 1))
    assert domain.feed(JobReady(domain.now, 2)) == []
    reserve_asked(domain)


@pytest.mark.parametrize("first", ["a", "b"])
def test_pair_after_an_outage_starts_together(first):
    world = World(0, Faults(slowest=1), calm_ns=0)
    settings = CouplingSettings(
        release_ns=10**6, unknown_ns=10**5, when_down=WhenDown.START, patience=PATIENCE
    )
    sites = {name: Site(world, name, 2, settings, skew=0) for name in "ab"}
    world.cut.add(frozenset("ab"))
    for site in sites.values():
        world.at(10, lambda site=site: site.submit(0, 1, 50, Group("g", ("a", "b"))))
    world.at(5_000, world.cut.clear)
    (second,) = {"a", "b"} - {first}
    world.at(5_010, lambda: sites[first].submit(1, 1, 50, NEXT))
    world.at(5_500, lambda: sites[second].submit(1, 1, 50, NEXT))
    world.run(20_000)
    (one,), (other,) = (site.tasks[1].began for site in sites.values())
    assert abs(one - other) < 10
