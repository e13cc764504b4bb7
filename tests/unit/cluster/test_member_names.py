"""Each machine has a name among a domain's members, whatever its host name is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.config.domain import parse_config
from cosched.core.errors import CoschedError
from cosched.core.names import can_be_node, member_of


@pytest.mark.parametrize(
    ("hostname", "member"),
    [
        ("n1", "n1"),
        ("Node-01.site", "Node-01.site"),
        ("n" * 64, "n" * 64),
        ("controller", "controller-node"),
        ("domain", "domain-node"),
        ("lab", "lab-node"),
        ("_gateway", "gateway-node"),
        ("my host", "my-host-node"),
        ("..", "node"),
    ],
)
def test_member_has_the_host_name_where_it_can(hostname, member):
    assert member_of(hostname) == member


@given(st.text(max_size=64))
def test_each_host_name_leads_to_a_name_that_a_node_can_have(hostname):
    name = member_of(hostname)
    assert can_be_node(name)
    parse_config({"controller": "127.0.0.1:1", "nodes": {name: "127.0.0.1:2"}})


def test_reserved_name_in_the_file_is_refused_with_another_one():
    with pytest.raises(CoschedError, match='write controller-node = "a:2"'):
        parse_config({"controller": "a:1", "nodes": {"controller": "a:2"}})
