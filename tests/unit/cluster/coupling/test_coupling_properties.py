"""Checks properties of coupled domains for any jobs, schemes and policies."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster.coupling.groups import Timing
from cosched.core.cluster.coupling.settings import CouplingSettings, Patience, Scheme
from cosched.sim.virtual_time import NEVER
from tests.unit.cluster.coupling.coupled_workloads import (
    RELEASE,
    System,
    run,
    starts,
    systems,
)

SOME = settings(max_examples=40, deadline=None)
HOLD = CouplingSettings(scheme=Scheme.HOLD, release_ns=RELEASE)
YIELD = CouplingSettings(scheme=Scheme.YIELD, release_ns=RELEASE)
FOUR = list(itertools.product((HOLD, YIELD), repeat=2))
NAMES = ["".join(one.scheme.value[0] for one in pair) for pair in FOUR]


def check_machines(system: System, domains) -> None:
    """All ran, none before its submission, and never more nodes than there are."""
    for domain, jobs, machine in zip(domains, system.jobs, system.machines, strict=True):
        begins = list(domain.start_ns)
        assert NEVER not in begins
        moments = []
        for start, (submit, run_time, size, _) in zip(begins, jobs, strict=True):
            assert start >= submit
            moments += [(start, size), (start + run_time, -size)]
        used = 0
        for _, change in sorted(moments):
            used += change
            assert used <= machine


@pytest.mark.parametrize("pair", FOUR, ids=NAMES)
@given(system=systems(settings=st.just(HOLD)))
@settings(max_examples=20, deadline=None)
def test_every_pair_together_under_every_scheme(pair, system):
    system = replace(system, settings=list(pair))
    domains = run(system)
    check_machines(system, domains)
    for mates in system.mates:
        assert len({domains[place].start_ns[index] for place, index in mates.items()}) == 1


@given(system=systems(domains=2))
@SOME
def test_pairs_together_with_caps_and_raised_priority(system):
    domains = run(system)
    check_machines(system, domains)
    for mates in system.mates:
        assert len({domains[place].start_ns[index] for place, index in mates.items()}) == 1


@pytest.mark.parametrize("count", [3, 4])
@given(data=st.data())
@SOME
def test_groups_of_more_than_two_together(count, data):
    system = data.draw(systems(domains=count))
    domains = run(system)
    check_machines(system, domains)
    for mates in system.mates:
        assert len({domains[place].start_ns[index] for place, index in mates.items()}) == 1


@given(system=systems(domains=3, down=True))
@SOME
def test_domain_that_is_down_delays_no_job(system):
    domains = run(system)
    up = [place for place in range(3) if place not in system.down]
    for place, domain in zip(up, domains, strict=True):
        assert NEVER not in domain.start_ns
        assert domain.ended == len(system.jobs[place])
    for mates in system.mates:
        begins = {
            domains[up.index(place)].start_ns[index]
            for place, index in mates.items()
            if place in up
        }
        assert len(begins) <= 1


@pytest.mark.parametrize("count", [2, 3])
@given(data=st.data(), delay=st.integers(0, 20))
@SOME
def test_mates_start_within_their_time(count, data, delay):
    drawn = systems(count, overruns=False, timing=st.just(Timing.WITHIN))
    system = replace(data.draw(drawn), delay=delay)
    # A promise needs a reservation, so backfill.
    system.policies = ["easy" if name == "fcfs" else name for name in system.policies]
    domains = run(system)
    check_machines(system, domains)
    for mates in system.mates:
        begins = [domains[place].start_ns[index] for place, index in mates.items()]
        assert max(begins) - min(begins) <= system.delay


@pytest.mark.parametrize(("rest", "yields"), [(0, 6), (3, 2), (7, 1)])
def test_a_job_that_has_yielded_rests_until_a_mate_asks(rest, yields):
    """A short job ends in each unit of time, so that the yielded job could be tried. Its
    mate's node is free at 6."""
    settings = replace(YIELD, rest_ns=rest)
    system = System(
        machines=[2, 1],
        jobs=[
            [(0, 1, 1, 1), *[(moment, 1, 1, 1) for moment in range(6)]],
            [(0, 6, 1, 6), (0, 1, 1, 1)],
        ],
        mates=[{0: 0, 1: 1}],
        settings=[settings, settings],
        policies=["easy", "easy"],
    )
    domains = run(system)
    assert [domains[0].start_ns[0], domains[1].start_ns[1]] == [6, 6]
    assert domains[0].counts["yields"] == yields


def test_a_rest_is_over_without_another_event():
    settings = replace(YIELD, rest_ns=4)
    system = System(
        machines=[1, 1],
        jobs=[[(0, 1, 1, 1)], [(0, 20, 1, 20), (0, 1, 1, 1)]],
        mates=[{0: 0, 1: 1}],
        settings=[settings, settings],
        policies=["easy", "easy"],
    )
    assert 3 <= run(system)[0].counts["yields"] <= 5  # it rests for 4 to 8


def test_promise_holds_before_its_round_goes():
    """A pass for another group comes between the promise and the decision of its round. It
    gives no node away that the promised start needs."""
    settings = CouplingSettings(release_ns=9, held_cap=0.0, pause_ns=1)
    system = System(
        machines=[4, 2, 1],
        jobs=[
            [(0, 2, 1, 2), (0, 1, 1, 1), (6, 9, 1, 9), (6, 1, 4, 1), (6, 1, 1, 1)],
            [(0, 1, 1, 1), (0, 1, 1, 1), (0, 1, 1, 1), (14, 1, 1, 1)],
            [(0, 1, 1, 1)],
        ],
        mates=[{0: 0, 1: 3, 2: 0}, {0: 1, 1: 1}, {0: 3, 1: 2}],
        settings=[settings] * 3,
        policies=["easy"] * 3,
        timing=Timing.WITHIN,
        delay=1,
    )
    domains = run(system)
    assert domains[0].start_ns[3] - domains[1].start_ns[2] == 1


def test_promise_causes_a_pass_at_once():
    """The second machine has a node to spare, which a wide job ahead keeps from the mate:
    promised, the mate goes first, and nothing else happens before its time is over."""
    settings = CouplingSettings(release_ns=9, older_first=True, pause_ns=1)
    system = System(
        machines=[1, 2],
        jobs=[[(18, 1, 1, 1)], [(12, 8, 1, 8), (12, 1, 2, 1), (12, 1, 1, 3)]],
        mates=[{0: 0, 1: 2}],
        settings=[settings, settings],
        policies=["easy", "easy"],
        timing=Timing.WITHIN,
        delay=1,
    )
    first, second = starts(system)
    assert abs(first[0] - second[2]) <= 1


def test_promise_after_its_end_is_refused():
    """The job on the second machine should have been over at 10; at 50 its end is unknown
    it will be, so the mate cannot promise to start within 5."""
    settings = CouplingSettings(release_ns=1000)
    system = System(
        machines=[1, 2],
        jobs=[[(50, 1, 1, 1)], [(0, 100, 2, 10), (1, 1, 2, 1)]],
        mates=[{0: 0, 1: 1}],
        settings=[settings, settings],
        policies=["easy", "easy"],
        timing=Timing.WITHIN,
        delay=5,
    )
    assert starts(system) == [[100], [0, 100]]


def test_promises_that_are_withdrawn_end():
    """In groups of three one mate promises and another cannot: the promise is withdrawn.
    The pass it wanted would make further promises, for ever, at one moment."""
    eager = CouplingSettings(release_ns=RELEASE, held_cap=0.5, pause_ns=1)
    never_holds = replace(eager, held_cap=0.0)
    first = [(0, 4, 1, 12), (0, 1, 2, 6), (0, 2, 5, 10)]
    first += [(12, 7, 4, 8), (13, 1, 3, 13), (16, 11, 5, 16)]
    second = [(0, 5, 1, 10), (0, 1, 1, 10), (12, 5, 2, 5), (13, 1, 2, 4)]
    second += [(16, 1, 1, 7), (16, 1, 1, 8), (17, 1, 1, 6), (20, 1, 1, 10)]
    third = [(0, 10, 2, 10), (0, 1, 1, 7), (0, 1, 1, 1), (0, 1, 1, 12)]
    third += [(0, 1, 1, 10), (11, 1, 1, 10), (13, 4, 2, 16)]
    places = [(3, 6, 0), (4, 5, 1), (0, 4, 4), (2, 0, 5), (5, 1, 2), (1, 2, 6)]
    system = System(
        machines=[6, 2, 2],
        jobs=[first, second, third],
        mates=[*(dict(enumerate(group)) for group in places), {1: 7, 2: 3}],
        settings=[eager, never_holds, never_holds],
        policies=["easy"] * 3,
        timing=Timing.WITHIN,
        delay=8,
    )
    domains = run(system)
    check_machines(system, domains)


def test_a_reservation_follows_a_held_job_that_starts():
    """The held job starts at 5, so its end moves from 10 to 15. The first of the queue
    then gets its nodes at 12 and leaves 2, not 3, to the job that comes at 6."""
    settings = CouplingSettings(release_ns=1000)
    second = [(0, 10, 6, 10), (0, 12, 5, 12), (1, 5, 6, 5), (6, 100, 3, 100)]
    system = System(
        machines=[1, 14],
        jobs=[[(5, 10, 1, 10)], second],
        mates=[{0: 0, 1: 0}],
        settings=[settings, settings],
        policies=["easy", "easy"],
    )
    assert starts(system) == [[5], [5, 0, 12, 15]]


def test_look_for_a_mate_s_nodes_keeps_the_reservation_of_another_group():
    """The second job waits for all four nodes until 10. At 1 the mate of the last one asks:
    that job starts on free nodes, and the third one does not."""
    second = [(0, 10, 2, 10), (0, 10, 4, 10), (0, 1000, 2, 1000), (0, 5, 1, 5)]
    system = System(
        machines=[2, 4],
        jobs=[[(1, 5, 1, 5), (10, 10, 1, 10)], second],
        mates=[{0: 1, 1: 1}, {0: 0, 1: 3}],
        settings=[YIELD, YIELD],
        policies=["easy", "easy"],
    )
    assert starts(system) == [[1, 10], [0, 10, 20, 1]]


def test_yield_cap_hold_over_held_cap_is_not_counted():
    both = CouplingSettings(
        scheme=Scheme.YIELD, release_ns=RELEASE, held_cap=0.0, yield_cap=0
    )
    system = System(
        machines=[1, 1],
        jobs=[[(0, 1, 1, 1)], [(5, 1, 1, 1)]],
        mates=[{0: 0, 1: 0}],
        settings=[both, both],
        policies=["easy", "easy"],
    )
    first, _ = run(system)
    assert first.counts["yields_by_held_cap"] > 0
    assert first.counts["holds"] == first.counts["holds_by_yield_cap"] == 0
    system.settings = [replace(both, held_cap=1.0)] * 2
    first, _ = run(system)
    assert first.counts["holds"] == first.counts["holds_by_yield_cap"] > 0


@pytest.mark.parametrize("count", [2, 3])
@given(data=st.data(), delay=st.integers(0, 20))
@SOME
def test_follower_starts_after_its_leader(count, data, delay):
    system = replace(data.draw(systems(count, timing=st.just(Timing.AFTER))), delay=delay)
    domains = run(system)
    check_machines(system, domains)
    for mates in system.mates:
        if 0 not in mates:
            continue  # no mate to wait for
        leader = domains[0].start_ns[mates[0]]
        run_time = system.jobs[0][mates[0]][1]
        for place, index in mates.items():
            if place:
                begin = domains[place].start_ns[index]
                assert begin >= leader + min(system.delay, run_time)


@pytest.mark.parametrize("count", [2, 3])
@given(data=st.data(), slowest=st.integers(1, 4), seed=st.integers(0, 1000))
@SOME
def test_messages_that_cross(count, data, slowest, seed):
    """Domains that ask each other at the same time neither wait for ever nor start half a
    group: mates start as far apart as their messages take. A release period is much
    longer than a message takes, or a hold for another domain does not last."""
    system = data.draw(systems(domains=count))
    period = 200 * slowest
    patience = Patience(
        resend_ns=4 * slowest,
        answer_ns=20 * slowest,
        prepare_ns=40 * slowest,
        doubt_ns=160 * slowest,
        retry_ns=10 * slowest,
    )
    patient = [
        replace(one, release_ns=period, pause_ns=period // 4, patience=patience)
        for one in system.settings
    ]
    domains = run(replace(system, settings=patient), 10_000 * period, slowest, seed)
    check_machines(system, domains)
    for mates in system.mates:
        begins = [domains[place].start_ns[index] for place, index in mates.items()]
        assert max(begins) - min(begins) <= 2 * slowest * (count - 1)


@given(system=systems(domains=3))
@SOME
def test_equal_systems_have_equal_starts(system):
    assert starts(system) == starts(system)


@given(system=systems())
@SOME
def test_without_groups_it_is_the_queue_alone(system):
    disabled = [replace(one, enabled=False) for one in system.settings]
    alone = replace(system, mates=[])
    assert starts(replace(system, settings=disabled)) == starts(alone)
    assert starts(replace(alone, down=frozenset({1})))[0] == starts(alone)[0]


def figure_2(release, older_first=False) -> System:
    """Figure 2 of the paper: a1 and b2 hold six nodes and wait for b1 and a2."""
    hold = CouplingSettings(release_ns=release, older_first=older_first)
    return System(
        machines=[10, 10],
        jobs=[[(0, 5, 6, 5), (1, 5, 6, 5)], [(0, 5, 6, 5), (1, 5, 6, 5)]],
        mates=[{0: 0, 1: 1}, {0: 1, 1: 0}],
        settings=[hold, hold],
        policies=["fcfs", "fcfs"],
    )


def test_hold_and_hold_deadlock_without_release():
    assert starts(figure_2(None)) == [[NEVER, NEVER], [NEVER, NEVER]]


@pytest.mark.parametrize("older_first", [False, True])
def test_a_release_ends_the_deadlock(older_first):
    assert starts(figure_2(RELEASE, older_first)) == [[14, 9], [9, 14]]


def taking_turns(older_first: bool) -> System:
    """Four pairs, each as large as both machines, that queue in another order in each.
    In the second domain a job that has no mate runs first."""
    hold = CouplingSettings(release_ns=RELEASE, older_first=older_first)
    return System(
        machines=[1, 1],
        jobs=[[(0, 3, 1, 3)] * 4, [(0, 5, 1, 5)] + [(0, 3, 1, 3)] * 4],
        mates=[{0: 0, 1: 3}, {0: 1, 1: 4}, {0: 2, 1: 1}, {0: 3, 1: 2}],
        settings=[hold, hold],
        policies=["fcfs", "fcfs"],
    )


def test_release_without_older_first_can_starve_pairs():
    """Lowest priority for one pass is not enough: two jobs alternate in each domain, and
    neither's mate is one of the two that alternate in the other."""
    begins = starts(taking_turns(older_first=False), until=1000 * RELEASE)
    assert begins == [[NEVER] * 4, [0] + [NEVER] * 4]
    begins = starts(taking_turns(older_first=True), until=1000 * RELEASE)
    assert NEVER not in itertools.chain(*begins)
