"""When coscheduling pays: the rule, its edges, and a job as the nodes' status has it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.advice import (
    IDLE_MOST,
    KERNEL_SLICE_S,
    LOSS_WORTH,
    Choice,
    Profile,
    advise,
)
from cosched.node.profile import profile_of

GIB = 1024**3
FINE = Profile(
    ranks=4, tasks=4, nodes=2, scheduled_s=10.0, exchanges=40_000, idle_s=4.0, slice_s=2.0
)


def test_fine_grained_job_is_coscheduled():
    advice = advise(FINE)
    assert FINE.grain_s == 0.001
    assert advice.choice is Choice.COSCHEDULE
    assert advice.reason == (
        "a message every 1 ms a task: left to the kernel it would take about 2.5 times as "
        "long for each job beside it"
    )


@pytest.mark.parametrize(
    ("changes", "choice", "words"),
    [
        ({"ranks": 1, "tasks": 1}, Choice.LEAVE_ALONE, "waits for no other"),
        ({"exchanges": 0}, Choice.LEAVE_ALONE, "no messages"),
        ({"exchanges": 40}, Choice.LEAVE_ALONE, "coscheduling does not pay"),
        ({"exchanges": None}, Choice.UNKNOWN, "--carrier shadow"),
        ({"scheduled_s": 0.2}, Choice.UNKNOWN, "ask again"),
        ({"idle_s": 30.0}, Choice.LEAVE_ALONE, "idles for 75%"),
        ({"response_s": 3.0}, Choice.BATCH, "less than 2 slices of 2 s"),
        ({"response_s": 30.0}, Choice.COSCHEDULE, "a message every"),
        (
            {"need_bytes": 5 * GIB, "node_bytes": 8 * GIB},
            Choice.BATCH,
            "5.0 GiB of a node's",
        ),
        ({"need_bytes": 3 * GIB, "node_bytes": 8 * GIB}, Choice.COSCHEDULE, "every"),
    ],
)
def test_advice_of_each_rule(changes, choice, words):
    advice = advise(replace(FINE, **changes))
    assert advice.choice is choice
    assert words in advice.reason


@given(
    grain_ms=st.floats(0.001, 1000), tasks=st.integers(2, 64), idle=st.floats(0, IDLE_MOST)
)
def test_finer_grain_favours_coscheduling(grain_ms, tasks, idle):
    messages = max(1, round(10.0 * tasks / grain_ms * 1000))
    profile = replace(
        FINE, tasks=tasks, exchanges=messages, idle_s=idle * 10.0 * tasks * 0.99
    )
    edge_s = KERNEL_SLICE_S / 2 / LOSS_WORTH
    expected = Choice.COSCHEDULE if profile.grain_s <= edge_s else Choice.LEAVE_ALONE
    assert advise(profile).choice is expected


def status(node, tasks, carrier="shadow", scheduled_s=4.0):
    return {
        "node": node,
        "settings": {"slice_s": 0.5},
        "memory": {"total_bytes": 8 * GIB},
        "jobs": [
            {
                "key": "0.app",
                "carrier": carrier,
                "scheduled_s": scheduled_s,
                "memory": {"declared_bytes": GIB, "measured_bytes": 2 * GIB},
                "tasks": [
                    {
                        "world": 8,
                        "launched": False,
                        "counters": dict(
                            zip(("sent", "waited_ns", "paused_ns"), c, strict=True),
                            received=7,
                            waits=9,
                        ),
                    }
                    for c in tasks
                ],
            }
        ],
    }


def test_profile_merges_the_nodes_of_a_job():
    second = 10**9
    one = status("n1", [(100, 3 * second, second), (50, 0, 0)])
    two = status("n2", [(150, second, 2 * second)], scheduled_s=6.0)
    assert profile_of([one, two], "0.app", 9.0) == Profile(
        ranks=8,
        tasks=3,
        nodes=2,
        scheduled_s=5.0,
        exchanges=300,
        idle_s=2.0,
        slice_s=0.5,
        response_s=9.0,
        need_bytes=2 * GIB,
        node_bytes=8 * GIB,
    )
    (launched,) = status("n2", [(0, 0, 0)])["jobs"][0]["tasks"]
    launched |= {"world": 0, "launched": True}  # it has not come to MPI: it counts nothing
    two["jobs"][0]["tasks"].append(launched)
    assert profile_of([one, two], "0.app").tasks == 3
    two["jobs"][0]["tasks"] = [launched]
    assert profile_of([two], "0.app") is None
    assert profile_of([one, two], "0.other") is None
    assert (
        profile_of([status("n1", [(0, 0, 0)], carrier="none")], "0.app").exchanges is None
    )
