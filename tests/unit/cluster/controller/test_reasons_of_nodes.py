"""The reasons of nodes that are down, for users."""

from cosched.cluster.engines.native.node_entries import (
    UNKNOWN_KEY,
    UNREADABLE,
    NodeEntries,
    NodeState,
)
from cosched.config.domain import DomainConfig

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
