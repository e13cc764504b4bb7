"""Checks that no job rests, or is left out of passes, when it could start, and that none
promises a start that it cannot have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cosched.core.cluster.coupling.groups import Group, Timing
from cosched.core.cluster.coupling.settings import CouplingSettings, Scheme
from cosched.core.cluster.queue.queue_events import NodesDrained, NodesJoined, Ticked
from tests.unit.cluster.coupling.coupled_faults import (
    PATIENCE,
    RELEASE,
    Faults,
    Site,
    World,
)

BOTH = ("a", "b")
PAIR = Group("pair", BOTH)
SETTINGS = CouplingSettings(
    scheme=Scheme.YIELD, release_ns=100 * RELEASE, unknown_ns=10**9, patience=PATIENCE
)


def world_of_two(nodes=1, latency=1, a=SETTINGS, b=SETTINGS):
    world = World(0, Faults(slowest=latency), calm_ns=0)
    for name, settings in zip(BOTH, (a, b), strict=True):
        Site(world, name, nodes, settings, skew=0)
    return world


def submit(world, name, at, number, size=1, run=50, group=None):
    world.at(at, lambda: world.sites[name].submit(number, size, run, group))


def check_began(world, number, before):
    """Both jobs of a group began once, and so soon. Messages take a moment."""
    (first,), (second,) = (world.sites[name].tasks[number].began for name in BOTH)
    assert abs(first - second) < 10
    assert first < before


@pytest.mark.parametrize("rest", [0, 1, 2, 5, 30, 59, 61])
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_domains_that_collide_do_not_collide_for_ever(rest, offset):
    """Each domain has a node for another group first, at the same moment."""
    settings = replace(SETTINGS, rest_ns=rest)
    world = world_of_two(a=settings, b=settings)
    other = Group("other", BOTH)
    for name, groups in (("a", (PAIR, other)), ("b", (other, PAIR))):
        for group in groups:
            number = int(group is other)
            submit(world, name, 10 + offset * (name == "b"), number, group=group)
    world.run(20_000)
    for number in (0, 1):
        check_began(world, number, before=5_000)


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("rest", [0, 5_000])
def test_a_question_of_the_mate_ends_a_rest(scheme, rest):
    """Another job has the node when the mate asks, and the mate does not ask again."""
    a, b = replace(SETTINGS, rest_ns=rest), replace(SETTINGS, scheme=scheme)
    world = world_of_two(a=a, b=b)
    submit(world, "b", 0, 100, run=200)
    submit(world, "a", 10, 0, group=PAIR)
    submit(world, "b", 10, 0, group=PAIR)
    submit(world, "a", 100, 101, run=300)
    world.run(8_000)
    check_began(world, 0, before=1_000)


@pytest.mark.parametrize("scheme", list(Scheme))
@pytest.mark.parametrize("rest", [0, 900, 1_005, 5_000])
@pytest.mark.parametrize("after", range(0, 30, 2))
def test_a_mate_that_is_cancelled_during_the_round_lets_the_job_start(scheme, rest, after):
    settings = replace(SETTINGS, scheme=scheme, rest_ns=rest)
    world = world_of_two(a=settings, b=settings)
    submit(world, "b", 0, 100, run=1_000)
    submit(world, "a", 10, 0, group=PAIR)
    submit(world, "b", 10, 0, run=10_000, group=PAIR)
    world.at(1_000 + after, lambda: world.sites["b"].cancel(0))
    world.run(4_000)
    (began,) = world.sites["a"].tasks[0].began
    assert began < 1_500


@pytest.mark.parametrize("rest", [0, 5_000])
def test_an_older_job_that_cannot_hold_does_not_keep_a_younger_one_from_holding(rest):
    """The older one has yielded by the cap on held nodes when the lease of a third ends."""
    a = replace(SETTINGS, scheme=Scheme.HOLD, held_cap=0.5, rest_ns=rest, release_ns=1_000)
    world = world_of_two(nodes=4, a=a, b=a)
    submit(world, "b", 0, 100, size=4, run=5_000)
    sizes = {"wide": 3, "held": 1, "young": 1}
    for number, name in enumerate(sizes):
        submit(world, "b", 10 + number, number, group=Group(name, BOTH))
    for number, (name, at) in enumerate({"wide": 900, "held": 20, "young": 1_002}.items()):
        submit(world, "a", at, number, sizes[name], group=Group(name, BOTH))
    world.run(1_100)
    assert 2 in world.sites["a"].held


def test_job_promises_no_start_on_nodes_that_are_out_of_service():
    world = world_of_two(nodes=2)
    site = world.sites["b"]
    world.at(1, lambda: site.feed(NodesDrained, ((1, 1),)))
    group = Group("near", BOTH, Timing.WITHIN, delay_ns=200)
    submit(world, "b", 10, 0, size=2, group=group)
    submit(world, "a", 20, 0, group=group)
    world.at(1_000, lambda: site.feed(NodesJoined, ((1, 1),)))
    world.at(1_000, lambda: site.feed(Ticked))
    world.run(5_000)
    for domain in world.sites.values():
        (began,) = domain.tasks[0].began
        assert 1_000 <= began <= 1_200
