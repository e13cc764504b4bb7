"""Checks coupled domains under outages that are longer than leases, under cancelled jobs,
and in groups of more than two domains."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cosched.core.cluster.coupling.settings import WhenDown
from tests.unit.cluster.coupling.coupled_faults import PATIENCE, RELEASE, Faults
from tests.unit.cluster.coupling.test_coupling_faults import (
    CALM,
    END,
    SCHEMES,
    STRICT,
    build,
    check_all_over,
    check_nothing_left,
    check_together,
)

SOME = settings(max_examples=10, deadline=None)
SEEDS = st.integers(0, 10**6)
#: A controller is away, or two domains are cut off, for up to three leases.
LONG = 3 * RELEASE
LASTING = Faults(drop=0.1, twice=0.1, slowest=5, crash=0.01, away=LONG, fails=0.05)
#: Votes that outlast all of that.
FIRM = replace(STRICT, patience=replace(PATIENCE, doubt_ns=20 * LONG))


def cut_links(world, seed, longest=LONG):
    """Cuts each pair of domains off for a time."""
    draw = Random(seed + 2)
    names = sorted(world.sites)
    for place, one in enumerate(names):
        for other in names[:place]:
            link, begin = frozenset((one, other)), draw.randint(0, CALM)
            world.at(begin, lambda link=link: world.cut.add(link))
            end = begin + draw.randint(1, longest)
            world.at(end, lambda link=link: world.cut.discard(link))


def cancel_some(world, seed, pairs=5):
    """Cancels a job of some pairs, whatever it does at that time; returns these pairs."""
    draw = Random(seed + 3)
    chosen = draw.sample(range(pairs), draw.randint(1, 3))
    for pair in chosen:
        site = world.sites[draw.choice(sorted(world.sites))]
        at = draw.randint(0, CALM)
        world.at(at, lambda site=site, pair=pair: site.cancel(pair))
    return chosen


def check_holds(world, patience):
    """No job held nodes for longer than its lease, its vote and its controller allow."""
    for site in world.sites.values():
        longest = RELEASE + patience.doubt_ns + 3 * patience.prepare_ns
        assert site.longest_hold <= longest + site.crashes * world.faults.away


@given(seed=SEEDS, schemes=SCHEMES, domains=st.sampled_from([2, 2, 3, 4]))
@example(seed=228, schemes="hh", domains=2)
@SOME
def test_outages_longer_than_leases_break_no_group(seed, schemes, domains):
    world = build(seed, LASTING, schemes, domains, chosen=FIRM)
    cut_links(world, seed)
    world.run(4 * END)
    check_all_over(world)
    check_together(world)
    check_nothing_left(world)
    check_holds(world, FIRM.patience)


@given(seed=SEEDS, schemes=SCHEMES, domains=st.sampled_from([2, 2, 3, 4]))
@example(seed=228, schemes="hh", domains=2)
@SOME
def test_cancelled_jobs_leave_the_others_free(seed, schemes, domains):
    """Mates of a cancelled job start together without it; all other groups are whole."""
    world = build(seed, LASTING, schemes, domains, chosen=FIRM)
    cancelled = cancel_some(world, seed)
    world.run(4 * END)
    check_nothing_left(world)
    check_holds(world, FIRM.patience)
    for site in world.sites.values():
        for number, tasks in site.tasks.items():
            assert tasks.state == "over"
            assert len(tasks.began) == 1 or number in cancelled
    for pair in range(5):
        members = [site.coupling.state.members[pair] for site in world.sites.values()]
        assert {member.past.alone for member in members} == {""}
        begun = [member.past.went for member in members if member.past.went is not None]
        if pair not in cancelled:
            assert len(set(begun)) == 1
            assert len(begun) == domains


@pytest.mark.parametrize("when_down", list(WhenDown))
@given(seed=SEEDS, schemes=SCHEMES, domains=st.sampled_from([2, 2, 3]))
@example(seed=228, schemes="hh", domains=2)
@example(seed=917, schemes="yy", domains=2)
@example(seed=97646, schemes="hh", domains=2)  # a lease ended within the last tick
@SOME
def test_outages_longer_than_votes_leave_nothing_behind(when_down, seed, schemes, domains):
    """No policy can keep a pair whole then. Each job runs once, and no node stays held."""
    chosen = replace(
        STRICT,
        when_down=when_down,
        down_hold_ns=2 * RELEASE,
        patience=replace(PATIENCE, doubt_ns=4 * PATIENCE.prepare_ns),
    )
    world = build(seed, LASTING, schemes, domains, chosen=chosen)
    cut_links(world, seed, longest=2 * LONG)
    world.run(4 * END)
    check_all_over(world)
    check_nothing_left(world)
    check_holds(world, chosen.patience)
    for pair in range(5):
        members = [site.coupling.state.members[pair] for site in world.sites.values()]
        rounds = {member.past.went for member in members}
        if len(rounds) > 1 and when_down is not WhenDown.YIELD:
            assert any(member.past.alone for member in members)
