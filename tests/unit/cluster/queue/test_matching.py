"""The choice of nodes by features and counts, in two stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.cluster.queue.places.matching import Matcher, NodeOffer, Request
from cosched.core.errors import CoschedError


def test_infeasible_is_not_the_same_as_busy():
    matcher = Matcher()
    matcher.join(NodeOffer("a", {"cores": 4}, frozenset({"ib"})))
    matcher.join(NodeOffer("b", {"cores": 2}))
    wide, four = Request(2, 3), Request(1, 4)
    assert not matcher.feasible(wide)
    assert matcher.feasible(four)
    matcher.take(1, ("a",), four)
    assert matcher.feasible(four)
    assert matcher.select(four) is None
    assert matcher.select(Request(1, 1, features=frozenset({"ib"}))) is None
    matcher.release(1)
    assert matcher.select(four) == ("a",)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda m: m.join(NodeOffer("a", {})), "node a: is in the domain already"),
        (lambda m: m.change(NodeOffer("z", {})), "node z: is not in the domain"),
        (lambda m: m.release(9), "job 9: has no nodes"),
        (lambda m: m.take(1, ("a",), Request(1, 1)), "job 1: has nodes already"),
        (lambda _: Request(0, 1), "both must be 1 or more"),
    ],
)
def test_wrong_use_is_named_in_one_line(act, says):
    matcher = Matcher()
    matcher.join(NodeOffer("a", {"cores": 2}))
    matcher.take(1, ("a",), Request(1, 1))
    with pytest.raises(CoschedError) as caught:
        act(matcher)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_domain_has_counts_of_its_own():
    matcher = Matcher({"matlab": 2})
    matcher.join(NodeOffer("a", {}))
    matcher.join(NodeOffer("b", {}))
    one, two = (Request(1, 1, (), in_domain=(("matlab", each),)) for each in (1, 2))
    assert matcher.select(two) == ("a",)
    matcher.take(1, ("a",), one)
    assert matcher.select(two) is None
    assert matcher.select(one) == ("a",)
    assert matcher.feasible(two)
    assert not matcher.feasible(Request(1, 1, (), in_domain=(("matlab", 3),)))
    matcher.release(1)
    assert matcher.select(two) == ("a",)


def test_another_offer_leaves_its_jobs_what_they_have():
    matcher = Matcher()
    matcher.join(NodeOffer("a", {"gpu": 4}))
    matcher.take(1, ("a",), Request(1, 1, (("gpu", 3),)))
    matcher.change(NodeOffer("a", {"gpu": 2, "tape": 1}))
    assert matcher.free("a") == {"gpu": -1, "tape": 1}
    assert matcher.select(Request(1, 1, (("gpu", 1),))) is None
    matcher.release(1)
    assert matcher.select(Request(1, 1, (("gpu", 2), ("tape", 1)))) == ("a",)


COUNTS = st.dictionaries(st.sampled_from(["gpu", "memory"]), st.integers(0, 4))
REQUESTS = st.builds(
    lambda nodes, counts, features, shared: Request(
        nodes, 1, tuple(sorted(counts.items())), features, in_domain=(("matlab", shared),)
    ),
    st.integers(1, 3),
    COUNTS,
    st.frozensets(st.sampled_from(["ib", "bigmem"])),
    st.integers(0, 2),
)


@given(
    st.lists(
        st.tuples(COUNTS, st.frozensets(st.sampled_from(["ib", "bigmem"]))),
        min_size=1,
        max_size=4,
    ),
    st.lists(st.tuples(REQUESTS, st.booleans()), max_size=20),
)
def test_no_node_and_no_domain_gives_more_than_it_has(offers, steps):
    matcher = Matcher({"matlab": 3})
    for number, (totals, features) in enumerate(offers):
        matcher.join(NodeOffer(number, totals, features))
    running = {}
    for job, (request, ends) in enumerate(steps):
        if ends and running:
            matcher.release(running.pop(min(running)))
        before = matcher.copy()
        nodes = matcher.select(request)
        if nodes is None:
            continue
        matcher.take(job, nodes, request)
        running[job] = job
        assert matcher.feasible(request)
        assert before.select(request) == nodes  # a plan has not changed
        for number, (totals, features) in enumerate(offers):
            free = matcher.free(number)
            assert all(0 <= free[name] <= totals[name] for name in totals)
            assert number not in nodes or request.features <= features
        assert 0 <= matcher.free_in_domain["matlab"] <= 3
