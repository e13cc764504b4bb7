"""Checks coupled domains under lost, repeated, late and reordered messages, and crashes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.coupling.groups import Group
from cosched.core.cluster.coupling.mate_messages import Ping
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme, WhenDown
from tests.unit.cluster.coupling.coupled_faults import (
    PATIENCE,
    RELEASE,
    Faults,
    Site,
    World,
)

SOME = settings(max_examples=30, deadline=None)
CALM = 4_000
END = 120_000
STRICT = CouplingSettings(
    release_ns=RELEASE,
    pause_ns=100,
    when_down=WhenDown.YIELD,
    unknown_ns=10**9,
    patience=PATIENCE,
)
SCHEMES = st.sampled_from(["hh", "hy", "yh", "yy"])
FAULTS = st.builds(
    Faults,
    drop=st.sampled_from([0.0, 0.1, 0.3]),
    twice=st.sampled_from([0.0, 0.2]),
    slowest=st.sampled_from([1, 5, 40]),
    crash=st.sampled_from([0.0, 0.01, 0.03]),
    fails=st.sampled_from([0.0, 0.1]),
    lost=st.sampled_from([0.0, 0.5]),
)


def build(seed, faults, schemes, domains=2, pairs=5, alone=4, chosen=STRICT, calm=CALM):
    """Returns a world in which groups and other jobs are submitted in the first half."""
    world = World(seed, faults, calm)
    draw = Random(seed + 1)
    names = "abcd"[:domains]
    for place, name in enumerate(names):
        scheme = {"h": Scheme.HOLD, "y": Scheme.YIELD}[schemes[place % len(schemes)]]
        skew = draw.randint(0, 10_000)
        Site(world, name, draw.randint(2, 5), replace(chosen, scheme=scheme), skew)
    for pair in range(pairs):
        group = Group(f"g{pair}", tuple(names))
        for name in names:
            submit_job(world, draw, name, pair, group)
    for number in range(alone):
        submit_job(world, draw, draw.choice(names), 100 + number, None)
    return world


def submit_job(world, draw, name, number, group):
    site = world.sites[name]
    size, run = draw.randint(1, site.nodes), draw.randint(50, 600)
    at = draw.randint(0, CALM // 2)
    world.at(at, lambda: site.submit(number, size, run, group))


def check_all_over(world):
    for site in world.sites.values():
        for number, tasks in site.tasks.items():
            assert tasks.state == "over", (site.name, number, tasks.state)
            assert len(tasks.began) == 1, (site.name, number, tasks.began)


def check_nothing_left(world):
    for site in world.sites.values():
        state = site.coupling.state
        assert not site.held
        # A domain that was down when the last job began is not asked any more.
        asks = [opened.question.ask for opened in state.questions.values()]
        assert all(isinstance(ask, Ping) for ask in asks), asks
        assert not state.rounds
        assert not state.decisions
        assert site.coupling.held == 0
        assert not site.coupling.waiting
        for peer in state.peers.values():
            assert len(peer.answers) < 100


def check_together(world, pairs=5):
    for pair in range(pairs):
        members = [site.coupling.state.members[pair] for site in world.sites.values()]
        assert {member.past.alone for member in members} == {""}
        assert len({member.past.went for member in members}) == 1


@given(
    seed=st.integers(0, 10**6),
    faults=FAULTS,
    schemes=SCHEMES,
    domains=st.sampled_from([2, 2, 3, 4]),
    rest=st.sampled_from([0, 0, 3, 20, 300, 2_500]),
)
@SOME
def test_groups_start_together_whatever_happens(seed, faults, schemes, domains, rest):
    """With outages shorter than the patience, and a policy that never starts alone."""
    world = build(seed, faults, schemes, domains, chosen=replace(STRICT, rest_ns=rest))
    world.run(END)
    check_all_over(world)
    check_together(world)
    check_nothing_left(world)
    for site in world.sites.values():
        longest = RELEASE + PATIENCE.doubt_ns + 3 * PATIENCE.prepare_ns + faults.away
        assert site.longest_hold <= longest
