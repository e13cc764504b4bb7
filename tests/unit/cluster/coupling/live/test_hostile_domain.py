"""Attacks a pair of jobs of a and b from a hostile domain c, over real connections.

c is coupled with both, so its key is good; it has no job in the group.
"""

from __future__ import annotations

import asyncio
import time

from cosched.cluster.coupling.mail import (
    LONGEST,
    MOST_AT_ONCE,
    MOST_PER_S,
    DomainMail,
    MessageRate,
)
from cosched.cluster.keys import load_keys
from cosched.cluster.links import Links
from cosched.cluster.messages import BetweenDomains
from cosched.core.cluster.coupling.engine_messages import Received
from cosched.core.cluster.coupling.mate_messages import (
    Abort,
    Announce,
    Answer,
    Go,
    Ping,
    Prepare,
    Question,
    Ready,
    Reserve,
    Went,
)
from cosched.core.cluster.coupling.state import Stage
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from tests.unit.cluster.coupling.live.live_domains import (
    EngineDouble,
    LiveDomain,
    free_addresses,
)

NAMES = "abc"


class Attack:
    """Domains a and b, which have a group, and the connections of c."""

    def __init__(self, folder):
        self.addresses = free_addresses(NAMES)
        self.log = []
        self.engines = {
            name: EngineDouble(name, 4, [n for n in NAMES if n != name]) for name in "ab"
        }
        self.live = {
            name: LiveDomain(
                folder,
                name,
                self.addresses,
                self.engines[name],
                self.log.append,
                again="100ms",
                unknown="1h",
                when_down="yield",
            )
            for name in "ab"
        }
        keys = load_keys(folder / "keys", "c", self.addresses)
        self.links = Links(keys, self.addresses, self.log.append, 4 * LONGEST)
        self.mail = DomainMail(self.links, self.log.append)
        self.number = 0

    def ask(self, to, ask, digest="", sender="c", user="anna", incarnation=1):
        self.number += 1
        number = self.number
        question = Question(sender, incarnation, number, number, "g", digest, 9, user, ask)
        self.mail.send(to, question)

    def state(self, name):
        return self.live[name].coupling.state

    def counts(self, name):
        return self.live[name].coupling.counts

    def stages(self):
        return [self.stage(name) for name in "ab"]

    def stage(self, name):
        member = self.state(name).members.get(1)
        return None if member is None else member.stage

    def submit(self, name):
        (other,) = {"a", "b"} - {name}
        self.engines[name].submit(1, f"mate=g@{other}", run_s=60)

    async def close(self):
        for live in self.live.values():
            await live.close()
        self.links.close()


async def until(condition, what, within_s=30.0):
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def attack(scenario):
    """Runs an async test in a loop of its own."""

    def run(tmp_path):
        async def work():
            under = Attack(tmp_path)
            try:
                await scenario(under)
            finally:
                await under.close()

        asyncio.run(work())

    run.__name__ = scenario.__name__
    return run


async def a_holds(under):
    under.submit("a")
    await until(lambda: under.stage("a") is Stage.HOLDING, "a holds")


async def pair_starts(under):
    under.submit("b")
    await until(lambda: under.stages() == [Stage.RUNNING] * 2, "the pair starts")
    assert [under.engines[name].jobs[1].state for name in "ab"] == ["running"] * 2


@attack
async def test_forged_groups_and_wrong_digests_start_and_stop_nothing(under):
    await a_holds(under)
    digest = under.state("a").members[1].digest
    orders = [Announce(), Ready(1), Reserve(("c", 1, 5), 1), Prepare(("c", 1, 5))]
    orders += [Go(("c", 1, 5), ()), Abort(("a", 1, 1)), Go(("a", 1, 1), ())]
    for order in orders:
        for forged in (digest, "0" * 64):
            under.ask("a", order, forged)
    await until(lambda: under.counts("a").refused >= 2 * len(orders), "all are refused")
    assert under.stage("a") is Stage.HOLDING
    assert under.engines["a"].jobs[1].began == []
    await pair_starts(under)


@attack
async def test_messages_in_the_name_of_another_are_dropped(under):
    await a_holds(under)
    digest = under.state("a").members[1].digest
    before = under.counts("a").dropped
    for order in (Ready(1), Reserve(("b", 1, 5), 1), Abort(("a", 1, 1))):
        under.ask("a", order, digest, sender="b", incarnation=1000)
    for number in range(1, 30):
        under.mail.send("a", Answer("c", 1, number, Went()))
    await until(lambda: under.counts("a").dropped >= before + 32, "all are dropped")
    await pair_starts(under)


@attack
async def test_replayed_messages_are_answered_once_and_change_nothing(under):
    sent = []
    mail = under.live["b"].mail
    send = mail.send

    def record(to, message):
        sent.append(message)
        send(to, message)

    mail.send = record
    under.submit("a")
    await pair_starts(under)
    began = under.counts("a").started, under.counts("a").rounds
    before = under.counts("a").dropped
    for message in [*sent]:
        send("a", message)  # again by b: it is answered as before, or dropped
        under.mail.send("a", message)  # by c: it is not its message
    await until(
        lambda: under.counts("a").dropped >= before + len(sent), "replays are dropped"
    )
    assert (under.counts("a").started, under.counts("a").rounds) == began
    assert under.stages() == [Stage.RUNNING] * 2


@attack
async def test_flood_delays_no_other_domain(under):
    """c sends more than it may, with garbage and huge messages between."""
    await a_holds(under)
    for _ in range(20):
        under.links.send("a", BetweenDomains(b"\xc1" * 100))
    for _ in range(MOST_AT_ONCE + 1000):
        under.ask("a", Ping())
    begin = time.monotonic()
    await pair_starts(under)
    assert time.monotonic() - begin < 10
    kind = "its BetweenDomains is dropped"
    await until(lambda: any(kind in line for line in under.log), "a logs a line")
    assert sum(kind in line for line in under.log) == 1
    under.links.send("a", BetweenDomains(bytes(2 * LONGEST)))
    await until(lambda: "c" in under.state("a").peers, "a reads a message of c")
    assert len(under.state("a").peers["c"].answers) <= 1024


@attack
async def test_huge_but_lawful_messages_are_refused_by_their_content(under):
    await a_holds(under)
    long = "x" * (LONGEST - 1000)
    under.ask("a", Announce(), long)
    under.ask("a", Go(("c", 1, 5), (("c", long[: LONGEST // 2]),)))
    under.ask("a", Ready(1), "", user=long)
    await until(lambda: under.counts("a").refused >= 1, "the addresses are refused")
    assert any("is dropped" in line for line in under.log)
    assert len(under.live["a"].coupling.snapshot(0)) < LONGEST
    await pair_starts(under)


def test_allowance_comes_back_with_time():
    allowance = MessageRate()
    assert sum(allowance.admit(NS_PER_S) for _ in range(2 * MOST_AT_ONCE)) == MOST_AT_ONCE
    assert not allowance.admit(NS_PER_S)
    assert sum(allowance.admit(2 * NS_PER_S) for _ in range(2 * MOST_PER_S)) == MOST_PER_S


@attack
async def test_message_that_the_coupling_refuses_costs_its_sender_only(under):
    await a_holds(under)
    driver = under.live["a"].domain.driver
    handle = driver._machine.handle

    def refuse(event):
        if isinstance(event, Received) and event.peer == "c":
            raise CoschedError("no such thing")
        return handle(event)

    driver._machine.handle = refuse
    under.ask("a", Ping())
    line = "c: a message is dropped: no such thing"
    await until(lambda: line in under.log, "a logs a line")
    await pair_starts(under)
