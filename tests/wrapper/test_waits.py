"""How a scheduled task waits while another job wants its CPU.

It spins up to a limit, and then sleeps until data arrives.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.task.environment import Environment
from mpi_shim.wrapper.task.link import Task
from tests.fakes import FakeNode

SWITCH_NS = lib.COSCHED_SPIN_SWITCH_NS
CHOICE = 64  # waits until a limit is chosen
LIMITS = [0, *(1000 << bucket for bucket in range(7)), SWITCH_NS]

lengths = st.one_of(
    st.integers(1, 2_000), st.integers(1, 200_000), st.integers(1, 5_000_000_000)
)


def cost(waits, limit_ns):
    """Returns what these waits cost if each spins up to the limit and then sleeps."""
    return sum(wait if wait <= limit_ns else limit_ns + SWITCH_NS for wait in waits)


def limit_after(waits):
    seen = ffi.new("struct cosched_spin_limit *")
    for wait in waits:
        lib.cosched_spin_limit_note(seen, wait)
    return lib.cosched_spin_limit_ns(seen)


def test_first_waits_spin_for_a_switch():
    assert limit_after([]) == SWITCH_NS
    assert limit_after([0] * (CHOICE - 1)) == SWITCH_NS


@given(st.lists(lengths, min_size=CHOICE, max_size=CHOICE))
def test_limit_would_have_been_best(waits):
    limit_ns = limit_after(waits)
    assert limit_ns in LIMITS
    assert cost(waits, limit_ns) == min(cost(waits, limit) for limit in LIMITS)


@given(st.lists(lengths, min_size=CHOICE, max_size=CHOICE))
def test_waits_cost_at_most_twice_as_much_as_with_foresight(waits):
    with_foresight = sum(min(wait, SWITCH_NS) for wait in waits)
    assert cost(waits, limit_after(waits)) <= 2 * with_foresight


def test_limit_follows_another_phase_of_the_program():
    long, short = [10_000_000] * 4 * CHOICE, [500] * 8 * CHOICE
    assert limit_after(long) == 0
    assert limit_after(long + short) >= 1000
    assert limit_after(long + short + 4 * long) == 0


@pytest.fixture
def arrivals():
    own = ffi.new("struct cosched_arrivals *")
    yield own
    lib.cosched_arrivals_close(own)


@pytest.fixture
def ends():
    """Both ends of a connection."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
    ):
        yield one, other


def drain(arrivals):
    """Sleeps until nothing has happened on the connections for a moment."""
    while lib.cosched_arrivals_sleep(arrivals, 1_000_000) == 1:
        pass


def test_sleep_ends_with_its_limit(arrivals):
    began_ns = time.monotonic_ns()
    while lib.cosched_arrivals_sleep(arrivals, 20_000_000) == 1:
        began_ns = time.monotonic_ns()
    assert time.monotonic_ns() - began_ns >= 20_000_000


def test_data_ends_the_sleep(arrivals, ends):
    one, other = ends
    drain(arrivals)
    sender = threading.Timer(0.05, one.send, [b"data"])
    began_ns = time.monotonic_ns()
    sender.start()
    assert lib.cosched_arrivals_sleep(arrivals, 60_000_000_000) == 1
    assert time.monotonic_ns() - began_ns < 30_000_000_000
    sender.join()
    # Data that nobody reads wakes the task once.
    drain(arrivals)
    other.recv(4)


def test_room_for_a_message_ends_the_sleep(arrivals, ends):
    one, other = ends
    drain(arrivals)
    one.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += one.send(b"x" * 65536)
    drain(arrivals)

    def read_all():
        left = sent
        while left:
            left -= len(other.recv(1 << 20))

    reader = threading.Timer(0.05, read_all)
    reader.start()
    assert lib.cosched_arrivals_sleep(arrivals, 60_000_000_000) == 1
    reader.join()


def test_later_connections_are_found(arrivals):
    drain(arrivals)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
    ):
        before = arrivals.connections
        deadline = time.monotonic() + 30
        while arrivals.connections == before:
            lib.cosched_arrivals_sleep(arrivals, 1_000_000)
            assert time.monotonic() < deadline


def test_program_that_closes_the_descriptor_is_left_alone(arrivals):
    """Its number may be another file's: the task then sleeps without."""
    drain(arrivals)
    reader, writer = os.pipe()
    os.dup2(reader, arrivals.epoll)
    taken = arrivals.epoll
    assert lib.cosched_arrivals_sleep(arrivals, 1_000_000) < 0
    assert lib.cosched_arrivals_sleep(arrivals, 1_000_000) < 0
    for descriptor in (reader, writer, taken):
        os.close(descriptor)


@pytest.fixture
def contended(run_dir, monkeypatch):
    """A scheduled task whose CPU another job wants, and its job in the fake node."""
    for name, value in {"JOB": "j", "RUN_DIR": str(run_dir), "NODE": "n"}.items():
        monkeypatch.setenv(f"COSCHED_{name}", value)
    with FakeNode(run_dir, "n", scheduled=True) as node:
        task = Task()
        task.configure(Environment())
        assert task.register(Environment(), 2, 5)
        job = node.jobs["j"]
        job.region.publish_contention(True)
        yield task, job
        task.deregister()


def test_contended_wait_naps_until_data_arrives(contended, ends):
    task, job = contended
    one, other = ends
    other.setblocking(False)
    sender = threading.Timer(0.2, one.send, [b"data"])

    def poll():
        try:
            return other.recv(4)
        except BlockingIOError:
            return b""

    used_ns = time.thread_time_ns()
    sender.start()
    assert task.wait(poll, pytest.fail) == b"data"
    sender.join()
    # It slept for most of the time.
    assert time.thread_time_ns() - used_ns < 100_000_000
    assert job.counters(2)["naps"] > 0
