"""The reasons of nodes that are down, and the answer to a wrong name, for users."""

import pytest

from cosched.cluster.engines.native.node_entries import (
    UNKNOWN_KEY,
    UNREADABLE,
    NodeEntries,
    NodeState,
)
from cosched.config.domain import DomainConfig
from cosched.core.errors import CoschedError

HERE, THERE = "10.0.0.1", "10.0.0.2"


def members():
    nodes = {"n1": f"{HERE}:2", "n2": f"{HERE}:3", "n3": f"{THERE}:2", "n4": "host4:2"}
    found = NodeEntries(DomainConfig("test", "10.0.0.9:1", nodes))
    found.by_name["n1"].state = NodeState.UP
    return found


def reasons(found):
    return [member.why for member in found.by_number]


def test_unknown_key_is_the_reason_of_nodes_without_an_agent_at_its_address():
    found = members()
    found.note_unknown_key(HERE)
    found.note_unknown_key("10.0.0.77")
    assert reasons(found) == ["", UNKNOWN_KEY, "", ""]


def test_stranger_does_not_replace_what_is_known():
    found = members()
    found.note_unreadable("n2")
    found.note_unknown_key(HERE)
    assert reasons(found) == ["", UNREADABLE, "", ""]


def test_node_that_answers_keeps_its_own_reason():
    found = members()
    found.note_unreadable("n1")
    found.note_unreadable("removed")
    found.by_name["n1"].state = NodeState.LOST
    found.by_name["n1"].reason = "it does not answer"
    assert reasons(found) == ["it does not answer", "", "", ""]


@pytest.mark.parametrize(
    ("name", "hint"),
    [("n11", "did you mean 'n1'?"), ("storage", "see cosched cluster status")],
)
def test_unknown_node_is_one_line_with_what_to_do(name, hint):
    with pytest.raises(CoschedError) as raised:
        members().named([name])
    assert str(raised.value) == f"node {name}: is not in this domain; {hint}"
