"""Names, addresses and CPUs of a lab."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.lab.plan import (
    MOST_NODES,
    NETWORK,
    hosts_file,
    mark_prefix,
    order_cpus,
    plan_crowded_nodes,
    plan_nodes,
)


def alone(count):
    return [frozenset({cpu}) for cpu in range(count)]


def test_nodes_are_numbered_from_one():
    nodes = plan_nodes(2, 1, alone(2))
    assert [(node.name, node.address, node.cpus) for node in nodes] == [
        ("lab1", "10.77.0.1", (0,)),
        ("lab2", "10.77.0.2", (1,)),
    ]


def test_nodes_share_a_core_only_if_cores_are_short():
    siblings = [frozenset({0, 4}), frozenset({1, 5}), frozenset({2, 6})]
    assert order_cpus(siblings) == [0, 1, 2, 4, 5, 6]
    assert [node.cpus for node in plan_nodes(3, 1, siblings)] == [(0,), (1,), (2,)]


def test_crowded_nodes_take_the_cpus_in_turn():
    nodes = plan_crowded_nodes(5, 1, alone(2))
    assert [node.cpus for node in nodes] == [(0,), (1,), (0,), (1,), (0,)]
    assert [node.cpus for node in plan_crowded_nodes(2, 2, alone(3))] == [(0, 1), (0, 2)]


def test_a_crowded_node_has_at_most_the_cpus_of_the_machine():
    with pytest.raises(CoschedError, match="3 cores a node: this machine gives 2"):
        plan_crowded_nodes(1, 3, alone(2))


@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 50))
def test_no_cpu_belongs_to_two_nodes(nodes, cores, machine):
    if nodes * cores > machine:
        with pytest.raises(CoschedError, match=f"this machine gives {machine}"):
            plan_nodes(nodes, cores, alone(machine))
        return
    planned = plan_nodes(nodes, cores, alone(machine))
    given_out = [cpu for node in planned for cpu in node.cpus]
    assert len(given_out) == len(set(given_out)) == nodes * cores
    assert len({node.address for node in planned}) == nodes
    assert all(ipaddress.ip_address(node.address) in NETWORK for node in planned)


@pytest.mark.parametrize(
    ("nodes", "cores", "says"),
    [(0, 1, "1 to 254"), (-1, 1, "1 to 254"), (MOST_NODES + 1, 1, "1 to 254"), (1, 0, "1")],
)
def test_impossible_sizes_are_refused(nodes, cores, says):
    with pytest.raises(CoschedError, match=says) as caught:
        plan_nodes(nodes, cores, alone(4))
    assert "\n" not in str(caught.value)


def test_hosts_file_has_machine_and_nodes():
    latin = "127.0.0.1 localhost  # im Büro\n".encode("latin-1")
    text = hosts_file(latin, plan_nodes(2, 1, alone(2)))
    assert text == b"10.77.0.1\tlab1\n10.77.0.2\tlab2\n" + latin


def test_labs_of_different_run_directories_have_different_marks():
    assert mark_prefix(Path("/run/a")) != mark_prefix(Path("/run/b"))
    assert mark_prefix(Path("/run/\udcfc")) != mark_prefix(Path("/run/\udce4"))
