"""Free ports on the loopback: in a row, free, and not among those of connections."""

from __future__ import annotations

import socket

import pytest

from cosched.core.errors import CoschedError
from cosched.linux import ports
from cosched.linux.ports import free_ports


@pytest.fixture
def place(monkeypatch):
    """Returns the first of 20 ports that no other program uses; it is the least one now."""
    first = free_ports(20)
    monkeypatch.setattr(ports, "_LEAST", first)
    return first


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Sets the range of ports that the kernel gives to connections."""
    path = tmp_path / "range"
    monkeypatch.setattr(ports, "_RANGE", path)

    def show(first, last):
        path.write_text(f"{first}\t{last}\n")

    return show


def test_ports_are_below_those_of_connections(place, shown):
    shown(place + 20, 65_535)
    for _ in range(20):
        assert place <= free_ports(3) < place + 18


def test_taken_port_is_not_in_the_row(place, shown):
    shown(place + 10, 65_535)
    rows = {place, place + 4, place + 5, place + 6}
    with socket.create_server(("127.0.0.1", place + 3)):
        assert {free_ports(3) for _ in range(20)} <= rows


def test_connections_that_may_take_all_ports_leave_some(shown):
    shown(1024, 65_535)
    assert 10_000 <= free_ports(2) < 65_535


def test_no_row_that_is_long_enough(place, shown):
    shown(place + 20, 65_535)
    with socket.create_server(("127.0.0.1", place + 9)), pytest.raises(CoschedError):
        free_ports(19)
