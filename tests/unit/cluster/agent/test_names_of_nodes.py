"""An agent finds the names of nodes by their numbers, and keeps what it cannot read yet."""

from __future__ import annotations

import pytest

from cosched.cluster.agent.known_nodes import WAITING_MOST, KnownNodes
from cosched.cluster.agent.route import names_of, route_of
from cosched.cluster.messages import Chunk, Order, Roster, RosterNode
from cosched.core.errors import CoschedError

NAMES = {0: "n1", 2: "n3", 3: "n4"}


def chunk(nodes, roster=0, job=1):
    return Chunk(job, 1, 0, nodes, 2, "siblings", 0, 1, nodes[0][0], b"", roster)


def roster(version, *names):
    nodes = (RosterNode(at, name, f"{name}:1", b"k" * 40) for at, name in enumerate(names))
    return Roster(version, tuple(nodes))


def test_job_that_changed_its_size_has_more_places_than_the_domain_has_nodes():
    nodes = ((0, 0), (2, 3), (2, 3), (2, 2))
    assert names_of(nodes, NAMES, 1) == ("n1", "n3", "n4", "n3", "n4", "n3")


@pytest.mark.parametrize(
    "nodes", [((1, 1),), ((0, 2),), ((4, 4),), ((0, 1 << 19),), ((2, 1),)]
)
def test_number_without_a_node_is_refused(nodes):
    with pytest.raises(CoschedError, match="job 1: has nodes that the domain lacks"):
        names_of(nodes, NAMES, 1)


def test_start_has_each_node_once():
    assert route_of(chunk(((0, 0), (2, 3))), NAMES).hosts == ("n1", "n3", "n4")
    for nodes in (((0, 0), (0, 0)), ((0, 0),) * 4):
        with pytest.raises(CoschedError, match="job 1: has a node twice"):
            route_of(chunk(nodes), NAMES)


def test_messages_of_a_start_wait_for_the_roster_with_its_nodes():
    known = KnownNodes()
    known.take(roster(1, "n1", "n2"))
    start, order, other = chunk(((0, 2),), 2), Order(1, 1, go=True), chunk(((0, 1),), 1, 7)
    assert known.keeps("n1", start)
    assert known.keeps("n1", order)
    assert not known.keeps("n1", other)
    assert list(known.take(roster(2, "n1", "n2", "n3"))) == [("n1", start), ("n1", order)]
    assert known.names == {0: "n1", 1: "n2", 2: "n3"}
    assert not known.keeps("n1", order)


def test_messages_of_a_start_that_has_ended_wait_no_more():
    known = KnownNodes()
    assert known.keeps("n1", chunk(((0, 0),), 1))
    known.forget((1, 1))
    assert not known.keeps("n1", Order(1, 1, go=True))
    assert list(known.take(roster(1, "n1"))) == []


def test_few_messages_wait():
    known = KnownNodes()
    for job in range(WAITING_MOST):
        assert known.keeps("n1", chunk(((0, 0),), 1, job))
    with pytest.raises(CoschedError, match=f"{WAITING_MOST} messages wait"):
        known.keeps("n1", chunk(((0, 0),), 1, WAITING_MOST))
