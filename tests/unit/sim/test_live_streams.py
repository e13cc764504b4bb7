"""The simulator's figures beside those of a live stream of malleable jobs."""

from __future__ import annotations

import pytest

from benchmarks.experiments.malleable.live_streams import Stream, simulated
from benchmarks.experiments.malleable.malleable_live import costs_of
from cosched.core.cluster.queue.sizes.execution import FREE, AdaptationCost
from cosched.core.units import NS_PER_S

STREAM = Stream("ge", count=12, nodes=8, beta=0.7, percent=25, mean_s=4.0, seed=1)
CHANGE_NS, START_NS = NS_PER_S, NS_PER_S // 20


def figures(policy, lasts=FREE, waits_ns=(0,) * STREAM.count):
    return simulated(STREAM.jobs(), STREAM.nodes, policy, FREE, lasts, 1, waits_ns)


def test_each_job_waits_for_its_start():
    starts = (START_NS,) * STREAM.count
    one, other = figures("ideal-only"), figures("ideal-only", waits_ns=starts)
    assert (one["start_s"], other["start_s"]) == (0, START_NS / NS_PER_S)
    for quantity in ("mean_wait_s", "mean_total_s"):
        assert other[quantity] == pytest.approx(one[quantity] + START_NS / NS_PER_S)
    assert other["throughput_per_h"] == one["throughput_per_h"]


def test_a_start_takes_the_median_wait_of_jobs_that_wait_for_no_node():
    # All jobs start at once in virtual time.
    waits = (*(START_NS,) * (STREAM.count - 1), 9 * NS_PER_S)
    assert figures("even-fr", waits_ns=waits)["start_s"] == START_NS / NS_PER_S


def test_starts_wait_for_changes_that_last():
    at_once = figures("even-fq")
    later = figures("even-fq", lasts=AdaptationCost(CHANGE_NS))
    assert at_once["mean_wait_s"] == 0
    assert 0 < later["mean_wait_s"] <= CHANGE_NS / NS_PER_S


def change(before, after, stood_s, ordered_ns, ended_ns, refused=""):
    return {
        "before": before, "after": after, "stood_s": stood_s, "refused": refused,
        "ordered_ns": ordered_ns, "ended_ns": ended_ns,
    }  # fmt: skip


def test_costs_are_the_means_of_a_live_run():
    changes = [
        change(1, 2, 0.3, 0, NS_PER_S),
        change(2, 3, 0.5, 0, 3 * NS_PER_S),
        change(3, 1, 0.1, 0, NS_PER_S // 2),
        change(1, 2, 0.0, 0, NS_PER_S, refused="no"),
        change(1, 2, 0.0, 0, None),
    ]
    times = [(0, 7, 90), (10, 15, 99)]
    jobs = [
        {"submitted_ns": at, "started_ns": start, "ended_ns": end, "changes": []}
        for at, start, end in times
    ]
    jobs[0]["changes"] = changes
    found = costs_of(jobs)
    assert (found.waits_ns, found.least_ns, found.refused) == ((7, 5), 83, 1)
    assert found.stands() == AdaptationCost(NS_PER_S // 10, added_ns=3 * NS_PER_S // 10)
    assert found.lasts() == AdaptationCost(NS_PER_S // 2, added_ns=3 * NS_PER_S // 2)
