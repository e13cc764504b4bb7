"""A sender of many messages gets little of the receiver's time and delays no other one."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest
import zmq

from cosched.cluster.intake import BURST_NS, LONGEST_NS, Intake, Taken
from cosched.core.units import NS_PER_S
from cosched.service.allowance import LONG_REST, MALFORMED_TIMES

WORK_NS = 50_000
SPAN_S = 1.0


class Receiver:
    """A socket whose messages start with their sender's name; each costs WORK_NS.

    The intake charges CPU time, so it is CPU time: on a busy machine a wait is shorter."""

    def __init__(self, context):
        self.socket = context.socket(zmq.ROUTER)
        self.socket.rcvhwm = 100_000
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.came = []

    def take(self):
        try:
            _, data = self.socket.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return None
        end_ns = time.thread_time_ns() + WORK_NS
        while time.thread_time_ns() < end_ns:
            pass
        sender, kind = data.decode().split()
        self.came.append((sender, time.monotonic()))
        return Taken(sender, useless=kind == "useless")


def sender(context, port):
    socket = context.socket(zmq.DEALER)
    socket.sndhwm = 100_000
    socket.linger = 0
    socket.connect(f"tcp://127.0.0.1:{port}")
    return socket


async def until_count(receiver, name, count):
    async with asyncio.timeout(20):
        while sum(who == name for who, _ in receiver.came) < count:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("kind", ["useless", "useful"])
def test_flood_of_one_sender_is_paced_and_others_wait_little(kind, monkeypatch):
    rests, rest = [], Intake._rest

    def counted(intake, rest_ns):
        rests.append(rest_ns)
        rest(intake, rest_ns)

    monkeypatch.setattr(Intake, "_rest", counted)

    async def check():
        with zmq.Context() as context:
            receiver = Receiver(context)
            flood, other = (sender(context, receiver.port) for _ in "ab")
            running = asyncio.ensure_future(Intake(receiver.socket, receiver.take).run())
            for _ in range(50_000):
                flood.send(f"flood {kind}".encode())
            await until_count(receiver, "flood", BURST_NS // WORK_NS + 100)
            began, before = time.monotonic(), len(receiver.came)
            rests.clear()
            place = []
            for number in range(1, 21):
                sent = len(receiver.came)
                other.send(b"other useful")
                await until_count(receiver, "other", number)
                place.append(len(receiver.came) - sent)
            await asyncio.sleep(SPAN_S)
            span_ns = (time.monotonic() - began) * NS_PER_S
            times = MALFORMED_TIMES if kind == "useless" else 1
            charged_ns = min(times * WORK_NS, LONGEST_NS // LONG_REST)
            flooded = sum(who == "flood" for who, _ in receiver.came[before:])
            # A rest shorter than the shortest one is left out once.
            assert flooded <= span_ns / (charged_ns * LONG_REST) * 1.2 + 20
            assert flooded >= 20  # it is slow, but not shut out
            assert len(rests) <= 0.7 * flooded  # each wakes the loop and libzmq
            # libzmq takes senders in turn, if it knows which ones have messages.
            assert sorted(place)[10] <= 5, place
            running.cancel()
            for each in (flood, other, receiver.socket):
                each.close(linger=0)

    asyncio.run(check())


def test_cheap_messages_of_an_honest_sender_cause_no_rest(monkeypatch):
    """A message is charged what it costs, not the most that one may be charged."""
    monkeypatch.setattr(sys.modules[__name__], "WORK_NS", 0)
    rests = []
    monkeypatch.setattr(Intake, "_rest", lambda _self, rest_ns: rests.append(rest_ns))

    async def check():
        with zmq.Context() as context:
            receiver = Receiver(context)
            one = sender(context, receiver.port)
            running = asyncio.ensure_future(Intake(receiver.socket, receiver.take).run())
            for _ in range(3 * BURST_NS * LONG_REST // LONGEST_NS // 2):
                one.send(b"one useful")
            end = time.monotonic() + 5
            while len(receiver.came) < 1000 and not rests and time.monotonic() < end:
                await asyncio.sleep(0.001)
            assert rests == []
            running.cancel()
            for each in (one, receiver.socket):
                each.close(linger=0)

    asyncio.run(check())


def test_messages_after_a_burst_all_arrive_and_errors_end_the_intake():
    async def check():
        with zmq.Context() as context:
            receiver = Receiver(context)
            one = sender(context, receiver.port)
            running = asyncio.ensure_future(Intake(receiver.socket, receiver.take).run())
            for _ in range(3):
                for _ in range(200):
                    one.send(b"one useful")
                await until_count(receiver, "one", 200)
                receiver.came.clear()
            one.send(b"no-kind")
            with pytest.raises(ValueError, match="unpack"):
                await asyncio.wait_for(running, 20)
            for each in (one, receiver.socket):
                each.close(linger=0)

    asyncio.run(check())
