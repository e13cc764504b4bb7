"""Messages between two members over the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest
import zmq

from cosched.cluster.doorkeeper import MOST_ADDRESSES, Doorkeeper
from cosched.cluster.keys import former_keys, load_keys, make_keys
from cosched.cluster.links import RECEIVE_LENGTH, Former, Links
from cosched.cluster.messages import (
    EndNoted,
    Leave,
    Refused,
    UserLeft,
    UserReply,
    encode,
)
from cosched.core.errors import StateLost
from tests.tools.ports import free_address

WITHIN_S = 20.0
#: A queue that takes no message for this time is full.
STUCK_MS = 2000
#: Messages of 1 MiB that leave their sender: buffers of the system hold some.
MOST_LEFT = 48


def test_message_that_is_too_long_is_dropped_and_later_ones_arrive(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    log = []

    async def talk():
        controller, agent = (
            Links(load_keys(tmp_path, name, names), addresses, log.append, 5000)
            for name in names
        )
        with contextlib.closing(controller), contextlib.closing(agent):
            agent.listen(addresses["n1"])
            came = asyncio.Queue()
            receiving = asyncio.ensure_future(
                agent.receive(lambda *each: came.put_nowait(each))
            )
            controller.send("n1", UserReply(1, bytes(6000)))
            controller.send("n1", UserReply(2, bytes(4000)))
            controller.send("n1", Leave())
            try:
                first, second = [await asyncio.wait_for(came.get(), WITHIN_S) for _ in "ab"]
            finally:
                receiving.cancel()
        assert first == ("controller", UserReply(2, bytes(4000)))
        assert second == ("controller", Leave())

    asyncio.run(talk())
    assert log == [
        "n1: a message for it is too long and is not sent: "
        "UserReply of 6015 bytes, the most are 5000"
    ]


def test_many_messages_at_once_arrive_and_lost_state_ends_the_receiver(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    came = []

    def take(sender, message):
        came.append(message.number)
        if len(came) == 300:
            raise StateLost("enough")

    async def talk():
        controller, agent = (
            Links(load_keys(tmp_path, name, names), addresses, print) for name in names
        )
        with contextlib.closing(controller), contextlib.closing(agent):
            agent.listen(addresses["n1"])
            for number in range(400):
                controller.send("n1", UserReply(number, b""))
            with pytest.raises(StateLost, match="enough"):
                await agent.receive(take)
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert came == list(range(300))


def test_messages_that_are_not_taken_wait_at_their_sender(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    receiver = Links(load_keys(tmp_path, "controller", names), addresses, print)
    thief = load_keys(tmp_path, "n1", names)
    with contextlib.closing(receiver), zmq.Context() as context:
        receiver.listen(addresses["controller"])
        link = context.socket(zmq.DEALER)
        link.curve_serverkey = thief.public["controller"]
        link.curve_secretkey, link.curve_publickey = thief.secret, thief.own_public
        link.sndhwm, link.linger = 1, 0
        link.connect(f"tcp://{addresses['controller']}")
        left = 0
        while left <= MOST_LEFT and link.poll(STUCK_MS, zmq.POLLOUT):
            link.send(bytes(1 << 20))
            left += 1
        link.close()
    assert RECEIVE_LENGTH < left < MOST_LEFT


def test_the_kernel_alone_finds_dead_peers(tmp_path):
    """Heartbeats of libzmq 4.3 end a process whose full sockets lose their peer."""
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)

    async def options():
        links = Links(load_keys(tmp_path, "controller", names), addresses, print)
        with contextlib.closing(links):
            links.listen(addresses["controller"])
            links.send("n1", UserReply(1, b""))
            for socket in (links._incoming, links._peers["n1"].socket):
                yield socket.heartbeat_ivl, socket.tcp_keepalive, socket.tcp_maxrt

    async def all_options():
        return [each async for each in options()]

    assert asyncio.run(all_options()) == [(0, 1, 10_000)] * 2


def test_message_whose_handler_fails_is_dropped_and_its_sender_named_once(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    log, came = [], []

    async def talk():
        controller, agent = (
            Links(load_keys(tmp_path, name, names), addresses, log.append) for name in names
        )
        done = asyncio.get_running_loop().create_future()

        def take(sender, message):
            came.append(message.number)
            if message.number == 9:
                done.set_result(None)
            raise (KeyError, IndexError, OverflowError)[message.number % 3](message.number)

        with contextlib.closing(controller), contextlib.closing(agent):
            agent.listen(addresses["n1"])
            for number in range(10):
                controller.send("n1", UserReply(number, b""))
            receiving = asyncio.ensure_future(agent.receive(take))
            await done
            assert not receiving.done()
            receiving.cancel()

    asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert came == list(range(10))
    (line,) = log
    assert line.startswith("controller: its UserReply is dropped: KeyError: 0 in take, ")


def test_bad_message_beside_good_ones_is_dropped_alone(tmp_path):
    """An envelope that comes late brings several messages at once."""
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    log, came = [], []

    async def talk():
        controller, agent = (
            Links(load_keys(tmp_path, name, names), addresses, log.append) for name in names
        )
        done = asyncio.get_running_loop().create_future()

        def take(sender, message):
            came.append(message.number)
            if message.number == 2:
                done.set_result(None)

        with contextlib.closing(controller), contextlib.closing(agent):
            agent.listen(addresses["n1"])
            delivery = controller._peer("n1").delivery
            parts = [encode(UserReply(1, b"")), b"\x91\xa1\xff", encode(UserReply(2, b""))]
            late, *others = [delivery.send(part, 0) for part in parts]
            for envelope in (*others, late):
                controller._transmit("n1", envelope)
            receiving = asyncio.ensure_future(agent.receive(take))
            await done
            receiving.cancel()

    asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert came == [1, 2]
    assert len(log) == 1
    assert log[0].startswith("controller: a message is dropped: not a message of a domain")


def test_member_whose_message_cannot_be_read_is_named_once(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    log = []

    async def talk():
        controller, agent = (
            Links(load_keys(tmp_path, name, names), addresses, log.append) for name in names
        )
        with contextlib.closing(controller), contextlib.closing(agent):
            controller.listen(addresses["controller"])
            receiving = asyncio.ensure_future(controller.receive(print))
            with agent._connect("controller") as socket:
                socket.send(b"other version")
                while not log:
                    await asyncio.sleep(0.02)
            receiving.cancel()
            assert controller.take_unreadable() == ["n1"]
            assert controller.take_unreadable() == []

    asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert log[0].startswith("n1: ")


def test_unknown_key_is_refused_and_its_address_is_kept(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    for folder in ("own", "other"):
        make_keys(tmp_path / folder, names)
    keys = load_keys(tmp_path / "own", "controller", names)
    (tmp_path / "other" / "controller.public").write_bytes(keys.own_public)
    log = []

    async def talk():
        controller = Links(keys, addresses, log.append)
        stranger = Links(load_keys(tmp_path / "other", "n1", names), addresses, print)
        with contextlib.closing(controller), contextlib.closing(stranger):
            controller.listen(addresses["controller"])
            receiving = asyncio.ensure_future(controller.receive(lambda *_: log.append(_)))
            stranger.send("controller", Leave())
            deadline = time.monotonic() + WITHIN_S
            while not (found := controller.take_strange()):
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)
            receiving.cancel()
            assert found == ["127.0.0.1"]
            assert controller.take_strange() == []

    asyncio.run(talk())
    assert log == []


def test_keys_that_no_member_has_are_former_ones(tmp_path):
    make_keys(tmp_path, ("controller", "n1", "n2"))
    keys = load_keys(tmp_path, "controller", ("controller", "n1"))
    (tmp_path / "renamed.public").write_bytes(keys.public["n1"])
    (tmp_path / "torn.public").write_text("torn")
    (tmp_path / "gone.public").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder.public").mkdir()
    former = (tmp_path / "n2.public").read_bytes().strip()
    assert former_keys(tmp_path, keys.public) == {"n2": former}


def test_former_member_gets_an_answer_and_nothing_of_it_is_read(tmp_path):
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    keys = load_keys(tmp_path, "controller", ("controller",))
    former = Former(former_keys(tmp_path, keys.public), encode(Refused("it was removed")))
    log = []

    async def talk():
        controller = Links(keys, addresses, log.append)
        controller.meet(addresses, keys.public, former)
        agent = Links(load_keys(tmp_path, "n1", names), addresses, print)
        with contextlib.closing(controller), contextlib.closing(agent):
            controller.listen(addresses["controller"])
            receiving = asyncio.ensure_future(controller.receive(lambda *_: log.append(_)))
            assert agent.take_answer("controller") is None
            for _ in range(2):
                agent.send("controller", Leave())
                while (answer := agent.take_answer("controller")) is None:
                    await asyncio.sleep(0.02)
                assert answer == Refused("it was removed")
            receiving.cancel()

    asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert log == ["n1: is not a member any more: it is turned away"]


@pytest.mark.parametrize("restarted", [True, False])
def test_member_that_was_removed_comes_again_under_the_same_name(tmp_path, restarted):
    """Also one that was away meanwhile and has not noticed it."""
    names = ("controller", "n1")
    addresses = {name: free_address() for name in names}
    make_keys(tmp_path, names)
    own = load_keys(tmp_path, "controller", ("controller",))
    keys = load_keys(tmp_path, "n1", names)
    came = []

    def take(_sender, message):
        came.append(message)

    async def exchange(controller, agent, number):
        controller.meet(addresses, keys.public)
        controller.send("n1", EndNoted(1, number))
        while EndNoted(1, number) not in came:
            await asyncio.sleep(0.02)
        agent.send("controller", UserLeft(number))
        while UserLeft(number) not in came:
            await asyncio.sleep(0.02)
        controller.meet({}, own.public)

    async def talk():
        controller = Links(own, {}, print)
        controller.listen(addresses["controller"])
        controller.send("n1", Leave())  # it is not there yet
        agent = Links(keys, addresses, print)
        agent.listen(addresses["n1"])
        works = [asyncio.ensure_future(each.receive(take)) for each in (controller, agent)]
        await exchange(controller, agent, 1)
        if restarted:
            works.pop().cancel()
            agent.close()
            agent = Links(keys, addresses, print)
            agent.listen(addresses["n1"])
            works.append(asyncio.ensure_future(agent.receive(take)))
        await exchange(controller, agent, 2)
        for work in works:
            work.cancel()
        agent.close()
        controller.close()

    asyncio.run(asyncio.wait_for(talk(), WITHIN_S))
    assert came == [EndNoted(1, 1), UserLeft(1), EndNoted(1, 2), UserLeft(2)]


class ZapSocket:
    """Keeps the statuses that a doorkeeper answers."""

    def __init__(self):
        self.statuses = []

    def send_multipart(self, frames):
        self.statuses.append(frames[2])

    def close(self):
        """Does nothing."""


def test_doorkeeper_keeps_few_addresses_of_strangers():
    context = zmq.Context()
    keeper = Doorkeeper(context, [])
    keeper.zap_socket = ZapSocket()
    for number in range(2 * MOST_ADDRESSES):
        address = f"10.0.0.{number}".encode()
        question = [b"1.0", b"1", b"", address, b"", b"CURVE", bytes(32)]
        asyncio.run(keeper.handle_zap_message(question))
    assert keeper.zap_socket.statuses == [b"300"] * 2 * MOST_ADDRESSES
    assert len(set(keeper.take_strange())) == MOST_ADDRESSES
    keeper.stop()
    context.term()
