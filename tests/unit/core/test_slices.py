"""The slice policies: which one the settings choose, and what differs between them."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from cosched.core.node.groups import Group
from cosched.core.node.job import JobState
from cosched.core.node.knowledge import Ended, Knowledge
from cosched.core.node.messages import Cause, SliceEnded
from cosched.core.node.settings import Order, Settings
from cosched.core.node.slices.adaptive import AdaptiveSlices
from cosched.core.node.slices.aligned import AlignedSlices
from cosched.core.node.slices.free import PRECEDENCE, FreeSlices
from cosched.core.node.slices.policy import choose_policy
from cosched.core.node.slices.rest import RestSlices
from cosched.core.units import NS_PER_MS, NS_PER_S

SETTINGS = Settings(slice_ns=NS_PER_S, gmet_ns=100 * NS_PER_MS)
AT = SliceEnded(now_ns=7 * NS_PER_S, wall_ns=7 * NS_PER_S)


def group_of_two(**first):
    a = JobState("a", submitted_ns=1, **first)
    return Group([JobState("b", submitted_ns=2), a])


@pytest.mark.parametrize(
    ("align", "auto", "order", "kind"),
    [
        (False, False, Order.REST, FreeSlices),
        (True, False, Order.REST, AlignedSlices),
        (False, True, Order.AGE, AdaptiveSlices),
        (True, True, Order.AGE, AdaptiveSlices),
        (False, True, Order.REST, RestSlices),
        (True, True, Order.REST, RestSlices),
    ],
)
def test_choose_policy_follows_the_settings(align, auto, order, kind):
    settings = replace(SETTINGS, align=align, slice_auto=auto, order=order)
    policy = choose_policy(settings, Knowledge())
    assert type(policy) is kind
    assert policy.order_timer([], 0).align is align


def test_free_order_ignores_cpu_times_within_a_grain():
    policy = choose_policy(replace(SETTINGS, align=False), Knowledge())
    for used_ms, order in ((100, "ab"), (200, "ba")):
        group = group_of_two(credit_ns=used_ms * NS_PER_MS)
        assert [job.key for job in policy.order(group, AT)] == list(order)


def test_aligned_order_follows_the_number_of_the_slice():
    policy = choose_policy(SETTINGS, Knowledge())
    group = group_of_two(credit_ns=9 * NS_PER_S)
    even = msgspec.structs.replace(AT, wall_ns=8 * NS_PER_S)
    assert [job.key for job in policy.order(group, even)] == ["a", "b"]
    assert [job.key for job in policy.order(group, AT)] == ["b", "a"]
    assert [job.key for job in policy.order_now(group, AT.now_ns)] == ["b", "a"]


@pytest.mark.parametrize(
    ("came_by", "factor"), [(Cause.SLICE, 1), (Cause.GIVEN, 1), (Cause.PULLED, PRECEDENCE)]
)
def test_pulled_job_is_protected_longer_if_it_precedes(came_by, factor):
    policy = choose_policy(SETTINGS, Knowledge())
    group = group_of_two(scheduled=True, since_ns=NS_PER_S, came_by=came_by)
    a, b = group.jobs
    until_ns = NS_PER_S + factor * SETTINGS.gmet_ns
    assert policy.protected_until_ns(a, [b], group, 0) == [until_ns]


def test_adaptive_turn_reads_ages_that_are_added_later():
    knowledge = Knowledge()
    settings = replace(SETTINGS, slice_auto=True, order=Order.AGE)
    policy = choose_policy(settings, knowledge)
    assert policy.turn_ns(group_of_two()) == NS_PER_S
    knowledge.learn([Ended(8 * NS_PER_S)] * 2)
    assert policy.turn_ns(group_of_two()) == 10 * NS_PER_S
