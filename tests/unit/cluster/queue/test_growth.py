"""A domain asks for the nodes that its jobs need, and gives back those that they do not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.growth import (
    LEAST_OUT_NS,
    Ask,
    Bounds,
    GiveBack,
    Request,
    Withdraw,
    decide,
)

IDLE_NS = 100


@st.composite
def cases(draw):
    """Draws a moment, bounds, nodes of the domain's own, requests and the jobs' needs."""
    own = draw(st.integers(1, 3))
    least = draw(st.integers(1, 4))
    most = draw(st.integers(max(own, least), 9))
    now_ns = draw(st.integers(0, 500) | st.integers(LEAST_OUT_NS, LEAST_OUT_NS + 500))
    since = st.integers(0, now_ns)
    states = draw(
        st.lists(
            st.one_of(
                st.just((False, None, None)),
                st.tuples(st.just(True), st.none() | since, st.none()),
                st.tuples(st.just(True), st.none(), since),
            ),
            max_size=most - own,
        )
    )
    requests = [Request(at, *state) for at, state in enumerate(states)]
    in_use = sum(
        each.granted and each.idle_since_ns is None and each.out_since_ns is None
        for each in requests
    )
    busy = draw(st.integers(0, own + in_use))
    waiting = draw(st.lists(st.integers(1, most), max_size=4))
    return now_ns, Bounds(least, most, IDLE_NS), own, requests, busy, waiting


def is_useless(request, now_ns):
    """Returns whether a node is out of service for long, without a job."""
    since_ns = request.out_since_ns
    return since_ns is not None and now_ns - since_ns >= LEAST_OUT_NS


@given(cases())
def test_domain_stays_within_its_bounds_and_keeps_what_is_needed(case):
    now_ns, bounds, own, requests, busy, waiting = case
    commands = decide(*case)
    asked = sum(each.nodes for each in commands if isinstance(each, Ask))
    given_up = [each.number for each in commands if not isinstance(each, Ask)]
    assert not (asked and given_up)
    useless = {each.number for each in requests if is_useless(each, now_ns)}
    if useless:
        assert set(given_up) == useless
        return
    assert len(set(given_up)) == len(given_up)
    before = own + len(requests)
    after = before + asked - len(given_up)
    assert after <= bounds.most
    assert after >= min(before, bounds.least)
    if before < bounds.least:
        assert after >= bounds.least
    needed = min(bounds.most, busy + sum(waiting))
    assert after >= min(needed, max(before, needed))
    by_number = {each.number: each for each in requests}
    for command in commands:
        match command:
            case Withdraw(number=number):
                assert not by_number[number].granted
            case GiveBack(number=number):
                assert now_ns - by_number[number].idle_since_ns >= IDLE_NS
            case Ask(nodes=nodes):
                assert nodes >= 1


@given(cases())
def test_decision_that_was_carried_out_is_not_made_again(case):
    now_ns, bounds, own, requests, busy, waiting = case
    rest = requests
    for _ in range(2):  # useless nodes go first
        commands = decide(now_ns, bounds, own, rest, busy, waiting)
        given_up = {each.number for each in commands if not isinstance(each, Ask)}
        asked = sum(each.nodes for each in commands if isinstance(each, Ask))
        rest = [each for each in rest if each.number not in given_up]
        rest += [Request(100 + at, granted=False) for at in range(asked)]
    assert decide(now_ns, bounds, own, rest, busy, waiting) == ()
    assert not any(is_useless(each, now_ns) for each in rest)
    capacity = own + len(rest)
    assert capacity >= max(bounds.least, min(bounds.most, busy + sum(waiting)))


def test_node_out_of_service_is_replaced_for_a_job_that_waits():
    bounds = Bounds(1, 2, IDLE_NS)
    out = [Request(7, granted=True, out_since_ns=0)]
    assert decide(LEAST_OUT_NS - 1, bounds, 1, out, 0, [2]) == ()
    assert decide(LEAST_OUT_NS, bounds, 1, out, 0, [2]) == (GiveBack(7),)
    assert decide(LEAST_OUT_NS, bounds, 1, [], 0, [2]) == (Ask(1),)


def test_domain_without_jobs_falls_to_its_least():
    requests = [Request(at, True, 0) for at in range(3)]
    bounds = Bounds(1, 4, IDLE_NS)
    assert decide(99, bounds, 1, requests, 0, []) == ()
    assert decide(100, bounds, 1, requests, 0, []) == tuple(map(GiveBack, (2, 1, 0)))
    two = Bounds(2, 4, IDLE_NS)
    assert decide(100, two, 1, requests, 0, []) == (GiveBack(2), GiveBack(1))


def test_requests_that_wait_go_first():
    requests = [Request(7, True, 0), Request(8, False), Request(9, True)]
    assert decide(200, Bounds(1, 9, IDLE_NS), 1, requests, 2, []) == (
        Withdraw(8),
        GiveBack(7),
    )


def test_domain_asks_for_what_jobs_need_up_to_its_most():
    bounds = Bounds(1, 8, IDLE_NS)
    assert decide(0, bounds, 1, [], 1, [3]) == (Ask(3),)
    assert decide(0, bounds, 1, [], 1, [4, 9]) == (Ask(7),)
    assert decide(0, bounds, 1, [Request(7, granted=False)], 1, [1]) == ()
