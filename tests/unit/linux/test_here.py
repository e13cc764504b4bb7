"""A machine is the same one under each of its names and addresses."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.linux import here as module
from cosched.linux.here import Here, Resolver, interface_addresses, parse_address

KNOWN = {
    "alias": ["10.0.0.7"],
    "node-01.example.com": ["127.0.1.1"],
    "mgmt": ["fd00::7"],
    "other": ["10.0.0.8"],
    "node-01.other.org": ["10.0.0.8"],
}


def machine(hostname="Node-01"):
    return Here(
        hostname,
        lambda: [parse_address("10.0.0.7"), parse_address("fd00::7")],
        lambda name: [parse_address(text) for text in KNOWN.get(name, ())],
    )


@pytest.mark.parametrize(
    ("host", "is_here"),
    [
        ("Node-01", True),
        ("node-01", True),
        ("NODE-01.", True),
        ("node-01.example.com", True),
        ("node-01.other.org", False),
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.0.1.1", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:10.0.0.7", True),
        ("10.0.0.7", True),
        ("fd00::7%eth0", True),
        ("10.0.0.8", False),
        ("alias", True),
        ("mgmt", True),
        ("other", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_names_of_a_machine(host, is_here):
    assert machine().is_meant_by(host) is is_here


def test_short_name_of_a_machine_with_a_domain():
    assert machine("n1.site").is_meant_by("N1")
    assert not machine("n1.site").is_meant_by("n1.other")


@given(st.text(max_size=80))
def test_any_text_has_an_answer(text):
    here = machine()
    assert here.is_one_meant_by([text]) is here.is_meant_by(text)


def test_addresses_of_this_machine_have_loopback():
    assert parse_address("127.0.0.1") in interface_addresses()
    assert module.this_machine().is_meant_by("127.0.0.1")


def test_resolver_that_hangs_costs_a_limited_time_once():
    end = threading.Event()

    def hang(_):
        end.wait()
        return ()

    began = time.monotonic()
    here = Here("n1", list, Resolver(hang, within_s=0.05))
    try:
        assert not any(here.is_meant_by(f"x{number}") for number in range(1000))
        assert not here.is_one_meant_by(["y", "z"])
        assert here.is_one_meant_by(["y", "n1"])
    finally:
        end.set()
    assert time.monotonic() - began < 20
