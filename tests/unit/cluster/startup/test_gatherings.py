"""Nodes of one job's worlds that come together at the job's root."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.cluster.agent.worlds import gatherings as module
from cosched.cluster.agent.worlds.gatherings import Gatherings
from cosched.core.cluster.startup.questions import Gather, World, WorldRanks
from cosched.core.errors import CoschedError

FIRST = World(0, ("n1", "n2", "n3"), (2, 1, 2))
SECOND = World(1, ("n2", "n1"), (1, 1))
WORLDS = {0: FIRST, 1: SECOND}
BOTH = (WorldRanks(0), WorldRanks(1))


def take(gatherings, world, host, members=BOTH, part=b"", what="connect"):
    answers = []
    question = Gather(what, members, part)
    gatherings.take((world, host), question, WORLDS, answers.append)
    return answers


def servers():
    return [(world.number, host) for world in WORLDS.values() for host in world.hosts]


@given(st.permutations(servers()))
def test_all_are_answered_alike_once_the_last_has_come(order):
    gatherings = Gatherings()
    answers = []
    for world, host in order:
        assert not any(answers)
        answers.append(take(gatherings, world, host, part=f"{world}{host}".encode()))
    assert [len(each) for each in answers] == [1] * 5
    assert len({each[0] for each in answers}) == 1
    answer = answers[0][0]
    assert answer.parts == (b"0n1", b"0n2", b"0n3", b"1n2", b"1n1")
    assert answer.worlds == (FIRST, SECOND)


def test_only_nodes_that_run_a_member_take_part():
    gatherings = Gatherings()
    members = (WorldRanks(0, (2, 4)), WorldRanks(1, (0,)))
    with pytest.raises(CoschedError, match="n1: runs none of the members"):
        take(gatherings, 0, "n1", members)
    waiting = [take(gatherings, 0, host, members) for host in ("n2", "n3")]
    assert waiting == [[], []]
    assert take(gatherings, 1, "n2", members)
    assert all(waiting)


def test_gatherings_of_the_same_members_follow_each_other():
    gatherings = Gatherings()
    members = (WorldRanks(1),)
    for part in (b"1", b"2"):
        first = take(gatherings, 1, "n1", members, part)
        assert first == []
        assert take(gatherings, 1, "n2", members, part)[0].parts == (part, part)
        assert first[0].parts == (part, part)


def test_gatherings_for_different_purposes_do_not_mix():
    gatherings = Gatherings()
    members = (WorldRanks(1),)
    take(gatherings, 1, "n1", members, what="connect")
    assert take(gatherings, 1, "n2", members, what="fence") == []


@pytest.mark.parametrize(
    ("asker", "members", "line"),
    [
        ((0, "n1"), (WorldRanks(0), WorldRanks(7)), "world 7 has ended"),
        ((7, "n1"), BOTH, "n1: runs none of the members"),
        ((1, "n3"), BOTH, "n3: runs none of the members"),
        ((0, "n1"), (WorldRanks(0, (0, 5)),), "world 0 lacks one of the ranks"),
        ((0, "n1"), (WorldRanks(0, (-1,)),), "world 0 lacks one of the ranks"),
    ],
)
def test_members_that_the_job_lacks_are_refused(asker, members, line):
    with pytest.raises(CoschedError, match=line):
        take(Gatherings(), *asker, members)


def test_a_node_that_comes_twice_is_refused():
    gatherings = Gatherings()
    take(gatherings, 0, "n1")
    with pytest.raises(CoschedError, match="n1: runs none"):
        take(gatherings, 0, "n1")


def test_a_world_that_ends_ends_the_gatherings_that_wait_for_it():
    gatherings = Gatherings()
    both, alone = take(gatherings, 0, "n1"), take(gatherings, 0, "n1", (WorldRanks(0),))
    gatherings.leave(1)
    assert [answer.error for answer in both] == ["world 1 has ended"]
    assert alone == []


def test_number_of_open_gatherings_is_bounded(monkeypatch):
    monkeypatch.setattr(module, "GATHERINGS_MOST", 1)
    gatherings = Gatherings()
    take(gatherings, 0, "n1")
    with pytest.raises(CoschedError, match="1 gatherings of the job are open"):
        take(gatherings, 0, "n1", what="fence")
    take(gatherings, 0, "n2")


def test_parts_that_do_not_fit_into_a_message_are_refused(monkeypatch):
    monkeypatch.setattr(module, "PARTS_MOST", 5)
    gatherings = Gatherings()
    answers = [take(gatherings, world, host, part=b"ab") for world, host in servers()]
    problems = {each[0].error for each in answers}
    assert problems == {"the members' data have 10 bytes, more than 5"}
