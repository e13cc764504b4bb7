"""Tests that messages arrive once and in order whatever the network does."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.cluster import delivery
from cosched.core.cluster.delivery import (
    CONFIRM_NS,
    FULL,
    FULL_BYTES,
    RESEND_BYTE_NS,
    RESEND_NS,
    WINDOW,
    Delivery,
)

MS = 1_000_000
#: A small message without confirmation is sent again by then.
LATE_NS = RESEND_NS + MS


def meet(a, b, now=0):
    """Both sides have heard of each other."""
    for one, other in ((a, b), (b, a)):
        assert other.receive(one.send_plain(b"hi"), now) == ([b"hi"], [])


def test_messages_arrive_in_order_and_are_confirmed_together():
    a, b = Delivery(1), Delivery(2)
    got = []
    for number in range(3):
        ready, _ = b.receive(a.send(b"%d" % number, 0), 0)
        got += ready
    assert got == [b"0", b"1", b"2"]
    assert a.wake_ns == RESEND_NS + RESEND_BYTE_NS
    assert b.due(CONFIRM_NS - 1) == []
    (confirmation,) = b.due(CONFIRM_NS)
    assert a.receive(confirmation, CONFIRM_NS) == ([], [])
    assert a.wake_ns is None
    assert b.wake_ns is None


def test_a_message_confirms_what_came_before():
    a, b = Delivery(1), Delivery(2)
    b.receive(a.send(b"question", 0), 0)
    a.receive(b.send(b"answer", 1), 1)
    assert b.wake_ns == 1 + RESEND_NS + 6 * RESEND_BYTE_NS
    assert a.wake_ns == 1 + CONFIRM_NS


def test_a_lost_message_is_sent_again_and_the_later_ones_wait_for_it():
    a, b = Delivery(1), Delivery(2)
    a.send(b"lost", 0)
    assert b.receive(a.send(b"second", 0), 0) == ([], [])
    (again,) = a.due(LATE_NS)
    assert b.receive(again, LATE_NS) == ([b"lost", b"second"], [])


def test_a_large_message_gets_the_time_that_a_slow_link_needs():
    a = Delivery(1)
    a.send(bytes(100_000), 0)
    assert a.wake_ns == RESEND_NS + 100_000 * RESEND_BYTE_NS


def test_late_messages_are_not_sent_again_one_by_one():
    a, b = Delivery(1), Delivery(2)
    meet(a, b)
    late = [a.send(b"%d" % number, 0) for number in range(5)]
    (again,) = a.due(LATE_NS)
    now = LATE_NS
    for number, envelope in enumerate(late):
        now += 10 * MS
        assert b.receive(envelope, now) == ([b"%d" % number], [])
        assert a.receive(b.send_plain(b""), now) == ([], [])
    assert b.receive(again, now) == ([], [])
    a.send(b"next", now)
    slow = 2 * (LATE_NS + 10 * MS)  # the first confirmation took half as long
    assert now + slow - 300 * MS < a.wake_ns <= now + slow + 100 * MS


def test_one_freeze_of_the_peer_is_soon_forgotten():
    a, b = Delivery(1), Delivery(2)
    meet(a, b)
    now = 0
    for pause_s in (1.5, *[0.001] * 30):
        envelope = a.send(b"x", now)
        now += int(pause_s * 1e9)
        b.receive(envelope, now)
        a.receive(b.send_plain(b""), now)
    a.send(b"x", now)
    assert a.wake_ns == now + RESEND_NS + RESEND_BYTE_NS


def test_several_lost_messages_follow_each_other_at_once():
    a, b = Delivery(1), Delivery(2)
    meet(a, b)
    for number in range(3):
        a.send(b"%d" % number, 0)
    (again,) = a.due(LATE_NS)
    got = []
    while True:
        ready, _ = b.receive(again, LATE_NS)
        got += ready
        _, more = a.receive(b.send_plain(b""), LATE_NS)
        if not more:
            break
        (again,) = more
    assert got == [b"0", b"1", b"2"]
    assert a.wake_ns is None


def test_a_message_that_comes_twice_is_delivered_once():
    a, b = Delivery(1), Delivery(2)
    envelope = a.send(b"once", 0)
    assert b.receive(envelope, 0) == ([b"once"], [])
    assert b.receive(envelope, 0) == ([], [])


def test_a_peer_in_a_new_life_gets_only_new_messages():
    a, old = Delivery(1), Delivery(2)
    meet(a, old)
    a.send(b"for the old life", 0)
    new = Delivery(3)
    (late,) = a.due(LATE_NS)
    new.receive(late, RESEND_NS)  # too early: the first of its stream may be lost
    assert a.receive(new.send_plain(b"hello"), RESEND_NS) == ([b"hello"], [])
    assert a.wake_ns is None
    assert new.receive(a.send(b"fresh", RESEND_NS), RESEND_NS) == ([b"fresh"], [])


def test_a_peer_in_a_new_life_gets_messages_for_any_life():
    a, old = Delivery(1), Delivery(2)
    meet(a, old)
    a.send(b"for the old life", 0)
    a.send(b"a start", 0, any_life=True)
    new = Delivery(3)
    assert a.receive(new.send_plain(b"hello"), 0) == ([b"hello"], [])
    (again,) = a.due(LATE_NS)
    assert new.receive(again, LATE_NS) == ([b"a start"], [])
    a.receive(new.confirm()[0], LATE_NS)
    assert a.is_confirmed


def test_a_message_that_a_new_life_has_confirmed_is_not_sent_again():
    a, old = Delivery(1), Delivery(2)
    a.receive(old.send_plain(b"hello"), 0)
    new = Delivery(3)
    assert new.receive(a.send(b"a start", 0, any_life=True), 0) == ([b"a start"], [])
    a.receive(new.confirm()[0], 0)
    assert a.is_confirmed


def test_no_number_of_messages_under_way_is_too_large():
    """A task may write a million single bytes before its output is credited."""
    a, b = Delivery(1), Delivery(2)
    meet(a, b)
    sent = [a.send(b"%d" % number, 0) for number in range(2 * WINDOW)]
    got, now, under_way = [], LATE_NS, sent[1:]  # the first one is lost
    while not a.is_confirmed:
        for envelope in under_way:
            got += b.receive(envelope, now)[0]
        _, under_way = a.receive(b.send_plain(b""), now)
        under_way = under_way or a.due(now := now + 10 * LATE_NS)
    assert got == [each.data for each in sent]


@pytest.mark.parametrize(("number", "size"), [(FULL, 0), (4, FULL_BYTES // 4)])
def test_a_peer_that_confirms_nothing_is_full_and_then_loses_all(number, size):
    a, data = Delivery(1), bytes(size)
    for _ in range(number - 1):
        a.send(data, 0, lasts=True)
    assert not a.is_full
    a.send(data, 0, lasts=True)
    assert a.is_full
    assert not a.give_up(0)
    assert a.is_confirmed
    assert not a.is_full


def test_what_was_given_up_is_dropped_and_later_messages_arrive():
    a, b = Delivery(1), Delivery(2)
    b.receive(a.send(b"early", 0), 0)
    a.send(b"given up", 0)
    assert a.give_up(0)
    assert a.wake_ns is None
    assert b.receive(a.send(b"later", 0), 0) == ([b"later"], [])


def test_what_lasts_is_not_given_up():
    a, b = Delivery(1), Delivery(2)
    meet(a, b)
    for data, lasts in ((b"one", True), (b"order", False), (b"two", True)):
        a.send(data, 0, lasts=lasts)
    assert a.give_up(0)
    assert b.receive(a.send(b"later", 0), 0) == ([], [])
    got, under_way = [], a.due(LATE_NS)
    while under_way:
        got += b.receive(under_way.pop(), LATE_NS)[0]
        under_way = a.receive(b.send_plain(b""), LATE_NS)[1]
    assert got == [b"one", b"two", b"later"]
    assert a.is_confirmed
    a.send(b"for this life", 0, lasts=True)
    a.receive(Delivery(3).send_plain(b"hi"), 0)
    assert a.is_confirmed


def test_a_late_message_of_a_former_life_changes_nothing():
    a, old, new = Delivery(1), Delivery(2), Delivery(3)
    meet(a, old)
    late = old.send(b"late", 0)
    meet(a, new)
    assert a.receive(new.send(b"first", 0), 0) == ([b"first"], [])
    assert a.receive(late, 0) == ([], [])
    assert a.receive(new.send(b"second", 0), 0) == ([b"second"], [])


class Net:
    """Carries envelopes; drops, doubles and delays them as drawn."""

    def __init__(self, draw):
        self.draw = draw
        self.under_way = []

    def put(self, to, envelope):
        fate = self.draw(st.sampled_from(["go", "go", "go", "drop", "twice", "late"]))
        if fate == "drop":
            return
        self.under_way += [(to, envelope)] * (2 if fate == "twice" else 1)
        if fate == "late" and len(self.under_way) > 1:
            at = self.draw(st.integers(0, len(self.under_way) - 1))
            self.under_way.insert(at, self.under_way.pop())


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_each_message_arrives_once_and_in_order(data):
    sides = {"a": Delivery(11), "b": Delivery(22)}
    other = {"a": "b", "b": "a"}
    sent, got = {"a": [], "b": []}, {"a": [], "b": []}
    net, now = Net(data.draw), 0

    def arrive(net):
        to, envelope = net.under_way.pop(0)
        ready, again = sides[to].receive(envelope, now)
        got[to] += ready
        for each in again:
            net.put(other[to], each)

    for number in range(data.draw(st.integers(1, 25))):
        now += data.draw(st.integers(0, 400)) * MS
        side = data.draw(st.sampled_from("ab"))
        sent[side].append(b"%d" % number)
        net.put(other[side], sides[side].send(sent[side][-1], now))
        for _ in range(data.draw(st.integers(0, 3))):
            if net.under_way:
                arrive(net)
        for name, one in sides.items():
            for envelope in one.due(now):
                net.put(other[name], envelope)
    net.draw = lambda _: "go"  # from now on the network is well
    for _ in range(2000):
        while net.under_way:
            arrive(net)
        times = [one.wake_ns for one in sides.values() if one.wake_ns is not None]
        if not times:
            break
        now = max(now, min(times))
        for name, one in sides.items():
            for envelope in one.due(now):
                net.put(other[name], envelope)
    assert got == {"a": sent["b"], "b": sent["a"]}
    assert all(one.wake_ns is None for one in sides.values())


def test_messages_that_come_too_early_have_a_limit_in_bytes(monkeypatch):
    """Those beyond it come again, and are then delivered in order."""
    monkeypatch.setattr(delivery, "EARLY_BYTES", 25)
    sender, receiver = Delivery(1), Delivery(2)
    first, *later = [sender.send(b"%d" % number * 10, 0) for number in range(4)]
    for envelope in (later[0], *later):
        assert receiver.receive(envelope, 0) == ([], [])
    assert receiver.receive(first, 0)[0] == [b"0" * 10, b"1" * 10, b"2" * 10]
    assert receiver.receive(later[2], 0)[0] == [b"3" * 10]
    assert receiver._early_bytes == 0
