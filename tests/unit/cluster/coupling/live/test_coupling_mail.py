"""Messages between domains over real connections, and what a hostile domain sends."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from cosched.cluster.coupling.mail import LONGEST, DomainMail
from cosched.cluster.keys import load_keys, make_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import Beat, BetweenDomains
from cosched.core.cluster.coupling.mate_messages import Announce, Done, Question
from cosched.core.cluster.coupling.mate_messages import Answer as Reply
from tests.tools.ports import free_address


def question(number):
    return Question("a", 1, number, 1, "g", "digest", 7, "anna", Announce())


class Ends:
    """Two domains, a and b, and c, whose key b does not have."""

    def __init__(self, folder):
        addresses = {name: free_address() for name in "ab"}
        make_keys(folder, "abc")
        self.log, self.got = [], []
        self.links = {}
        for name in "abc":
            known = "abc" if name == "c" else "ab"
            keys = load_keys(folder, name, known)
            where = {**addresses, "c": "127.0.0.1:1"}
            longest = (
                LONGEST + 256 if name == "b" else 4 * LONGEST
            )  # a and c may be hostile
            self.links[name] = Links(keys, where, self.log.append, longest)
        for name in "ab":
            self.links[name].listen(addresses[name])

    async def receive(self, count):
        """Receives at b until ``count`` messages or complaints have come."""
        mail = DomainMail(self.links["b"], self.log.append)
        task = asyncio.ensure_future(
            mail.receive(lambda *message: self.got.append(message))
        )
        loop = asyncio.get_running_loop()
        end = loop.time() + 20
        while len(self.got) + len(self.log) < count:
            assert loop.time() < end, (self.got, self.log)
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def close(self):
        for name in "ab":
            self.links[name].close()


@pytest.fixture
def run(tmp_path):
    def run(scenario):
        async def work():
            ends = Ends(tmp_path / "keys")
            try:
                await scenario(ends)
            finally:
                ends.close()

        asyncio.run(work())

    return run


def test_message_arrives_with_the_name_of_its_key(run):
    async def scenario(ends):
        mail = DomainMail(ends.links["a"], ends.log.append)
        mail.send("b", question(7))
        mail.send("b", Reply("b", 1, 7, Done()))
        await ends.receive(2)
        # The sender inside the message is checked against the key by the coupling.
        assert ends.got == [("a", question(7)), ("a", Reply("b", 1, 7, Done()))]
        assert ends.log == []

    run(scenario)


def test_other_messages_and_garbage_are_one_line(run):
    async def scenario(ends):
        links = ends.links["a"]
        links.send("b", Beat(1))
        links.send("b", BetweenDomains(b"\xc1"))
        links.send("b", BetweenDomains(msgspec.msgpack.encode({"type": "Launch"})))
        links.send("b", BetweenDomains(b"\x82\xa4type\xa6Answer\xa1x" + b"\x91" * 9000))
        await ends.receive(2)
        DomainMail(links, ends.log.append).send("b", question(8))
        await ends.receive(3)
        assert ends.got == [("a", question(8))]
        first, second = ends.log
        assert first == "a: its Beat is dropped: Beat is not between domains"
        assert second.startswith("a: its BetweenDomains is dropped: not a message between")

    run(scenario)


def test_huge_message_and_unknown_key_do_not_arrive(run):
    async def scenario(ends):
        ends.links["a"].send("b", BetweenDomains(bytes(LONGEST * 2)))
        ends.links["c"].send("b", BetweenDomains(b""))
        await asyncio.sleep(0.3)
        # The connection of the huge message was closed; the next one is made.
        DomainMail(ends.links["a"], ends.log.append).send("b", question(9))
        await asyncio.wait({asyncio.ensure_future(_again(ends)), _came(ends)})
        assert {message for _, message in ends.got} == {question(9)}
        ends.links["c"].close()

    run(scenario)


def test_message_to_a_domain_that_is_not_configured_any_more_is_lost(run):
    async def scenario(ends):
        mail = DomainMail(ends.links["a"], ends.log.append)
        mail.send("lens", question(9))
        assert ends.log == ["lens: jobs name this domain, but [coupling] does not"]

    run(scenario)


def _came(ends):
    return asyncio.ensure_future(ends.receive(1))


async def _again(ends):
    mail = DomainMail(ends.links["a"], ends.log.append)
    for _ in range(50):
        if ends.got:
            return
        mail.send("b", question(9))
        await asyncio.sleep(0.1)
