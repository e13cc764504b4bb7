"""Free ports on the loopback: in a row, free, and not among those of connections."""

from __future__ import annotations

import socket

import pytest

from cosched.core.errors import CoschedError
from cosched.linux import ports
from cosched.linux.ports import free_ports


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Sets the range of ports that the kernel gives to connections."""
    path = tmp_path / "range"
    monkeypatch.setattr(ports, "_RANGE", path)

    def show(first, last):
        path.write_text(f"{first}\t{last}\n")

    return show


def test_ports_are_below_those_of_connections(shown):
    shown(10_020, 60_000)
    for _ in range(20):
        first = free_ports(3)
        assert first >= 10_000
        assert first + 2 < 10_020


def test_taken_port_is_not_in_the_row(shown):
    shown(10_010, 60_000)
    with socket.create_server(("127.0.0.1", 10_003)):
        assert {free_ports(3) for _ in range(20)} <= {10_000, 10_004, 10_005, 10_006}


def test_connections_that_may_take_all_ports_leave_some(shown):
    shown(1024, 65_535)
    assert 10_000 <= free_ports(2) < 65_535


def test_no_row_that_is_long_enough(shown):
    shown(10_020, 60_000)
    with socket.create_server(("127.0.0.1", 10_009)), pytest.raises(CoschedError):
        free_ports(19)
