"""A desk answers requests line by line, and one user cannot fill its memory."""

import asyncio
import errno
import gc
import json
import os
import resource
import select
import socket
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest

from cosched.cluster import user_socket
from cosched.cluster.member import first_error
from cosched.cluster.messages import InputTaken
from cosched.cluster.user_input import Inputs, Visitor
from cosched.cluster.user_requests import LONGEST_REQUEST
from cosched.cluster.user_socket import (
    BURST_NS,
    BYTES_PER_USER,
    REQUEST_NS,
    Person,
    UserSocket,
)
from cosched.core.errors import StateLost
from cosched.core.units import NS_PER_S
from cosched.service.allowance import LONG_REST


class Echo:
    """Answers with the length of the request."""

    async def answer(self, body):
        return json.dumps(len(body)).encode()

    def leave(self):
        pass


@asynccontextmanager
async def desk(folder):
    found = UserSocket(folder / "desk.sock", lambda person: Echo(), print)
    await found.open()
    try:
        yield found
    finally:
        await found.close()


@asynccontextmanager
async def caller(folder):
    reader, writer = await asyncio.open_unix_connection(folder / "desk.sock", limit=1 << 20)
    try:
        yield reader, writer
    finally:
        writer.close()


async def ask(connection, body):
    reader, writer = connection
    writer.write(body)
    return json.loads(await asyncio.wait_for(reader.readline(), 20))


def test_requests_of_each_length_are_answered_in_turn(tmp_path):
    async def check():
        async with desk(tmp_path), caller(tmp_path) as connection:
            for size in (1, 2, 65_536, 65_537, 1_000_000, LONGEST_REQUEST, 3):
                assert await ask(connection, b"x" * (size - 1) + b"\n") == size

    asyncio.run(check())


def test_request_that_is_too_long_is_refused(tmp_path):
    async def check():
        async with desk(tmp_path), caller(tmp_path) as connection:
            answer = await ask(connection, b"x" * (LONGEST_REQUEST + 1))
            assert answer == {"error": "the request is too long"}

    asyncio.run(check())


def test_unfinished_requests_of_a_user_are_bounded_together(tmp_path):
    async def check():
        size = LONGEST_REQUEST - 100
        async with desk(tmp_path) as found, AsyncExitStack() as stack:
            for _ in range(BYTES_PER_USER // size):
                _, writer = await stack.enter_async_context(caller(tmp_path))
                writer.write(b"x" * size)
                await writer.drain()
            one_more = await stack.enter_async_context(caller(tmp_path))
            answer = await ask(one_more, b"x" * size + b"\n")
            assert answer == {"error": "the request is too long"}
            assert sum(found._bytes.values()) <= BYTES_PER_USER
        async with desk(tmp_path) as found, caller(tmp_path) as connection:
            assert await ask(connection, b"x\n") == 2
            await asyncio.sleep(0.01)
            assert not found._bytes

    asyncio.run(check())


@pytest.mark.parametrize(
    "body",
    [
        b'{"x":' + b"[" * 100_000,
        json.dumps(
            {"do": "input", "job": 2**70, "start": 1, "node": "n1", "at": 0, "data": ""}
        ).encode(),
        json.dumps(
            {"do": "input", "job": 1, "start": 1, "node": "n1", "at": -(2**70), "data": ""}
        ).encode(),
    ],
)
def test_odd_input_goes_to_the_domain_which_refuses_it(body):
    async def refuse(person, body):
        return b"refused"

    visitor = Visitor(Person(7, 7), Inputs({"n1"}, lambda *_: None), refuse)
    assert asyncio.run(visitor.answer(body)) == b"refused"


class Broken(Echo):
    """Fails to answer. error: why."""

    def __init__(self, error):
        self.error = error
        self.left = 0

    async def answer(self, body):
        raise self.error

    def leave(self):
        self.left += 1


def test_request_that_fails_costs_its_connection_only(tmp_path):
    log, broken = [], Broken(KeyError("\x1b[31m\nforged"))

    async def check():
        failed = first_error(log.append)
        found = UserSocket(tmp_path / "desk.sock", lambda person: broken, log.append)
        await found.open()
        for _ in range(3):
            async with caller(tmp_path) as (reader, writer):
                writer.write(b"x\n")
                assert await asyncio.wait_for(reader.readline(), 20) == b""
        assert not failed.done()
        await found.close()

    asyncio.run(check())
    assert broken.left == 3
    (line,) = log
    assert line.startswith(
        f"user {os.getuid()}: desk.sock: a request failed; its connection"
    )
    assert "KeyError" in line
    assert line.isprintable()


def test_lost_state_is_seen(tmp_path):
    log, broken = [], Broken(StateLost("disk is full"))

    async def check():
        failed = first_error(log.append)
        found = UserSocket(tmp_path / "desk.sock", lambda person: broken, log.append)
        await found.open()
        async with caller(tmp_path) as (reader, writer):
            writer.write(b"x\n")
            assert await asyncio.wait_for(reader.readline(), 20) == b""
        with pytest.raises(StateLost, match="disk is full"):
            await asyncio.wait_for(failed, 20)
        await found.close()

    asyncio.run(check())
    assert broken.left == 1
    assert log == []


@pytest.mark.parametrize("turns", range(8))
def test_request_that_fails_as_its_user_leaves_is_seen(tmp_path, turns):
    """turns: how many the loop makes between the end of the connection and the failure."""
    log, left = [], asyncio.Event()

    class Fails(Echo):
        async def answer(self, body):
            await asyncio.sleep(0)
            client.close()
            for _ in range(turns):
                await asyncio.sleep(0)
            raise KeyError("x")

        def leave(self):
            left.set()

    async def check():
        failed = first_error(log.append)
        found = UserSocket(tmp_path / "desk.sock", lambda person: Fails(), log.append)
        await found.open()
        client.connect(str(tmp_path / "desk.sock"))
        client.sendall(b"x\n")
        await asyncio.wait_for(left.wait(), 20)
        await asyncio.sleep(0)
        gc.collect()
        assert not failed.done()
        await found.close()

    with socket.socket(socket.AF_UNIX) as client:
        asyncio.run(check())
    assert all("desk.sock: a request failed" in line for line in log)


def test_connection_that_breaks_costs_its_user_only(tmp_path, monkeypatch):
    log, peer_ids = [], user_socket.peer_ids

    def broken(_connection):
        monkeypatch.setattr(user_socket, "peer_ids", peer_ids)
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    async def check():
        failed = first_error(log.append)
        found = UserSocket(tmp_path / "desk.sock", lambda person: Echo(), log.append)
        await found.open()
        monkeypatch.setattr(user_socket, "peer_ids", broken)
        async with caller(tmp_path) as (reader, _):
            assert await asyncio.wait_for(reader.readline(), 20) == b""
        async with caller(tmp_path) as connection:
            assert await ask(connection, b"x\n") == 2
        assert not failed.done()
        await found.close()

    asyncio.run(check())
    (line,) = log
    assert line.startswith("a connection is closed: OSError: [Errno 107] Transport end")


def test_failure_of_a_timer_is_seen():
    async def check():
        failed = first_error(print)
        loop = asyncio.get_running_loop()
        loop.call_soon(int, "x")
        loop.call_soon(int, "y")  # the first one counts
        with pytest.raises(ValueError, match="'x'"):
            await asyncio.wait_for(failed, 20)

    asyncio.run(check())


@pytest.fixture
def no_descriptor():
    """Takes all descriptors when it is called; returns what gives them back."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = []

    def take():
        most = max(map(int, os.listdir("/proc/self/fd"))) + 8
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        return give_back

    def give_back():
        while taken:
            os.close(taken.pop())

    yield take
    give_back()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_user_waits_while_no_descriptor_is_free(tmp_path, no_descriptor):
    """A user who connects again and again must not end the controller."""

    async def check():
        loop = asyncio.get_running_loop()
        logged = loop.create_future()
        failed = first_error(logged.set_result)
        async with desk(tmp_path):
            with socket.socket(socket.AF_UNIX) as user:
                user.setblocking(False)
                user.connect(str(tmp_path / "desk.sock"))
                user.send(b"x\n")
                give_back = no_descriptor()
                await asyncio.wait({failed, logged}, return_when=asyncio.FIRST_COMPLETED)
                assert not failed.done()
                assert await logged == "accepts no connections now: Too many open files"
                give_back()
                assert await asyncio.wait_for(loop.sock_recv(user, 9), 20) == b"2\n"

    asyncio.run(check())


def test_user_who_leaves_with_an_answer_unread_disturbs_nothing(tmp_path):
    """Then Linux resets the connection, while the next request is being answered."""

    class Slow(Echo):
        async def answer(self, body):
            if body == b"wait\n":
                waits.set()
                await asyncio.Event().wait()
            return await super().answer(body)

    async def check():
        loop, failures = asyncio.get_running_loop(), []
        loop.set_exception_handler(lambda _, context: failures.append(context))
        found = UserSocket(tmp_path / "desk.sock", lambda person: Slow(), print)
        await found.open()
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(tmp_path / "desk.sock"))
        client.sendall(b"first\n")
        await loop.run_in_executor(None, select.select, [client], [], [])
        client.sendall(b"wait\n")
        await waits.wait()
        client.close()
        while found._serving:
            await asyncio.sleep(0)
        gc.collect()
        await found.close()
        assert failures == []

    waits = asyncio.Event()
    asyncio.run(check())


@pytest.mark.parametrize(
    "odd", [{"node": "nowhere"}, {"node": "controller"}, {"at": -1}, {"at": 1 << 61}]
)
def test_refused_input_is_not_ended_either(odd):
    sent = []
    inputs = Inputs(["n1"], lambda *message: sent.append(message))

    async def refuse(_person, _body):
        return b"{}"

    async def check():
        visitor = Visitor(Person(7, 7), inputs, refuse)
        request = {"do": "input", "job": 1, "start": 1, "node": "n1", "at": 0, "data": ""}
        answer = asyncio.ensure_future(visitor.answer(json.dumps(request | odd).encode()))
        for _ in range(3):
            await asyncio.sleep(0)
        if "node" in odd or odd["at"] < 0:
            assert "error" in json.loads(await answer)
            visitor.leave()
            assert sent == []
        else:
            assert len(sent) == 1
        answer.cancel()

    asyncio.run(check())


def test_user_with_many_requests_waits(tmp_path, monkeypatch):
    """Requests whose answers cost nothing are paced, too."""
    other = Person(os.geteuid() + 1, 7)
    monkeypatch.setattr(user_socket, "_person", lambda _connection: other)

    async def check():
        burst = BURST_NS // REQUEST_NS
        async with desk(tmp_path), caller(tmp_path) as connection:
            began = time.monotonic()
            for _ in range(burst + 50):
                assert await ask(connection, b"x\n") == 2
            assert time.monotonic() - began >= 40 * LONG_REST * REQUEST_NS / NS_PER_S

    asyncio.run(check())


def test_user_of_the_domain_has_no_account(tmp_path):
    async def check():
        async with desk(tmp_path) as found, caller(tmp_path) as connection:
            assert await ask(connection, b"x\n") == 2
            assert len(found._costs) == 0

    asyncio.run(check())


def test_answer_of_a_node_that_does_not_run_the_job_is_ignored():
    sent = []
    inputs = Inputs(["n1", "n2"], lambda *message: sent.append(message))

    async def refuse(_person, _body):
        return b"{}"

    async def check():
        visitor = Visitor(Person(7, 7), inputs, refuse)
        request = {"do": "input", "job": 1, "start": 1, "node": "n1", "at": 0, "data": ""}
        answer = asyncio.ensure_future(visitor.answer(json.dumps(request).encode()))
        while not sent:
            await asyncio.sleep(0)
        number = sent[0][1].number
        inputs.take("n2", InputTaken(number, 5, False, ""))
        for _ in range(3):
            await asyncio.sleep(0)
        assert not answer.done()
        inputs.take("n1", InputTaken(number, 0, True, ""))
        assert json.loads(await answer) == {"ok": {"taken": 0, "open": True}}

    asyncio.run(check())


def test_kernel_refuses_a_user_with_too_many_connections(tmp_path, monkeypatch):
    monkeypatch.setattr("cosched.cluster.user_socket.CONNECTIONS_PER_USER", 1)
    monkeypatch.setattr("cosched.cluster.user_socket.SHUT_S", 0.2)
    uid, shut, opened = os.getuid(), [], []
    monkeypatch.setattr("cosched.service.door.Door.shut", lambda _, uid: shut.append(uid))
    monkeypatch.setattr("cosched.service.door.Door.open", lambda _, uid: opened.append(uid))

    async def check():
        async with desk(tmp_path), caller(tmp_path) as first:
            assert await ask(first, b"x\n") == 2
            async with caller(tmp_path) as (reader, _):
                answer = json.loads(await reader.readline())
                assert answer == {"error": "too many connections of this user"}
            assert shut == [uid]
            while not opened:
                await asyncio.sleep(0.01)

    asyncio.run(check())
