"""The watch over jobs that share a node, and the promise of no harm, in virtual time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.symbiosis.harm import LEAST_PERCENT, GiveWay, Party, give_way
from cosched.core.symbiosis.looks import FIRST_RESTS, PERIOD_SLICES, SLICE_LEAST_NS
from cosched.core.symbiosis.speeds import LEAST_TRIALS, Estimate, Measure
from cosched.core.symbiosis.watch import DUTY_NS, RETRY_NS, Watch, WatchSettings
from cosched.core.units import NS_PER_S
from tests.unit.core.symbiosis_node import PlayedJob, PlayedNode

LIMIT = 1.10
#: So long it takes to see that one of two jobs is slowed: enough first looks at it, and one
#: more period, since the first look may begin late.
SEEN_S = (2 * LEAST_TRIALS + 2) * PERIOD_SLICES * SLICE_LEAST_NS / NS_PER_S


def estimate(slowdown, low=None, high=None):
    return Estimate(
        Measure.ITERATIONS, 6, 100.0, 100 / slowdown, slowdown,
        slowdown if low is None else low, slowdown if high is None else high,
    )  # fmt: skip


def node(first, second, limit=LIMIT, percent=1.0):
    watch = Watch(WatchSettings(percent, limit))
    jobs = {
        "first": PlayedJob(2000.0, lambda _: first),
        "second": PlayedJob(2000.0, lambda _: second),
    }
    return PlayedNode(watch, jobs, limit)


def test_both_slowdowns_are_found():
    played = node(1.05, 1.0)
    played.run(60)
    found = {job: played.watch.known(job, ["first", "second"]) for job in played.jobs}
    assert found["first"].slowdown == pytest.approx(1.05, abs=0.02)
    assert found["second"].slowdown == pytest.approx(1.0, abs=0.02)
    assert found["first"].is_within(LIMIT)
    assert found["second"].is_within(LIMIT)
    assert played.watch.giving is None


def test_jobs_rest_for_a_hundredth_of_their_time():
    played = node(1.0, 1.0)
    played.run(120)
    for job in played.jobs.values():
        assert 0 < job.rested_ns <= 0.01 * played.now_ns + NS_PER_S / 50


def test_no_job_rests_if_looks_are_off():
    played = node(3.0, 3.0, percent=0.0)
    played.run(120)
    assert played.rests == []


def test_no_job_gives_way_without_a_limit():
    played = node(3.0, 3.0, limit=0.0)
    played.run(60)
    assert played.watch.giving is None
    assert played.watch.known("first", ["first", "second"]).slowdown == pytest.approx(
        3.0, 0.05
    )


def test_last_job_gives_way_to_one_that_it_slows():
    played = node(2.0, 1.0)
    played.run(60)
    assert played.watch.giving == GiveWay("second", "first", 18)
    assert played.watch.gave_way_ns("second") > 30 * NS_PER_S
    assert played.watch.gave_way_ns("first") == 0


def test_last_job_waits_if_it_alone_is_slowed():
    played = node(1.0, 2.0)
    played.run(60)
    assert played.watch.giving == GiveWay("second", "second", LEAST_PERCENT)


def test_giving_way_ends_when_a_job_leaves():
    played = node(2.0, 1.0)
    played.run(30)
    del played.jobs["first"]
    played.run(2)
    assert played.watch.giving is None
    assert not played.resting
    (known,) = played.watch.speeds_of("second").values()
    assert known.slowdown == pytest.approx(1.0, abs=0.02)


def test_suspended_job_finds_its_neighbour_giving_way_when_it_comes_back():
    played = node(2.0, 1.0)
    played.run(60)
    watch, gave_way_ns = played.watch, played.watch.gave_way_ns("second")
    rested_ns = {job: watch.rested_ns(job) for job in played.jobs}
    played.away.add("first")
    played.run(5)
    assert watch.giving is None
    assert watch.known("first", ["first", "second"]).is_beyond(LIMIT)
    played.away.clear()
    played.run(2)
    assert watch.giving == GiveWay("second", "first", 18)
    assert watch.gave_way_ns("second") > gave_way_ns
    assert {job: watch.rested_ns(job) for job in played.jobs} == rested_ns


def test_jobs_rest_no_more_if_one_of_them_is_often_suspended():
    played = node(1.0, 1.0)
    for _ in range(30):
        played.away.clear()
        played.run(3)
        played.away.add("first")
        played.run(1)
    for name, job in played.jobs.items():
        assert job.rested_ns <= 0.01 * played.now_ns + NS_PER_S / 50
        assert played.watch.rested_ns(name) == pytest.approx(job.rested_ns, rel=0.05)


def test_job_that_left_the_node_is_forgotten():
    played = node(2.0, 1.0)
    played.run(60)
    del played.jobs["second"]
    played.run(1)
    assert played.watch.gave_way_ns("second") == 0
    assert played.watch.speeds_of("second") == {}


def test_jobs_are_looked_at_again_after_a_time():
    """The first job leaves its phase in which it is slowed."""
    played = node(1.0, 1.0)
    played.jobs["first"].slowdown = lambda second: 2.0 if second < 60 else 1.0
    played.run(RETRY_NS / NS_PER_S / 2)
    assert played.watch.giving is not None
    played.run(RETRY_NS / NS_PER_S)
    assert played.watch.giving is None
    rested_ns = played.jobs["second"].rested_ns
    played.run(60)
    assert played.jobs["second"].rested_ns - rested_ns <= 0.02 * 60 * NS_PER_S


def test_look_is_given_up_if_a_job_comes():
    played = node(1.0, 1.0)
    watch = played.watch
    step = watch.step(["first", "second"], 0, played.wall_ns)
    assert step.actions == ()
    now_ns = step.next_ns
    for _ in range(2):  # the first reading, and the rest
        step = watch.step(["first", "second"], now_ns, played.wall_ns + now_ns)
        for action in step.actions:
            if hasattr(action, "job"):
                watch.read(action.job, played._sample(action.job))
        now_ns = step.next_ns
    resting = [a for a in step.actions if getattr(a, "jobs", ())]
    assert len(resting) == 1
    came = watch.step(["first", "second", "third"], now_ns, played.wall_ns + now_ns)
    assert came.actions[0].jobs == ()


def test_late_driver_gives_a_look_up():
    played = node(1.0, 1.0)
    step = played.watch.step(["first", "second"], 0, played.wall_ns)
    late_ns = step.next_ns + SLICE_LEAST_NS
    later = played.watch.step(["first", "second"], late_ns, played.wall_ns + late_ns)
    assert later.actions == ()
    assert later.next_ns > late_ns


def test_one_job_is_not_watched():
    watch = Watch(WatchSettings())
    assert watch.step(["only"], 0, 1).next_ns is None


@pytest.mark.parametrize(
    ("parties", "expected"),
    [
        ([], None),
        ([("a", 3.0)], None),
        ([("a", None), ("b", None)], None),
        ([("a", 1.05), ("b", 1.0)], None),
        ([("a", 2.0), ("b", 1.0)], GiveWay("b", "a", 18)),
        ([("a", 2.0), ("b", 4.0), ("c", 1.0)], GiveWay("c", "b", 12)),
        ([("a", 1.0), ("b", 2.0)], GiveWay("b", "b", LEAST_PERCENT)),
        ([("a", 1.101), ("b", 2.0)], GiveWay("b", "a", 99)),
    ],
)
def test_who_gives_way(parties, expected):
    known = [Party(job, slow and estimate(slow)) for job, slow in parties]
    assert give_way(known, LIMIT) == expected


def test_no_job_gives_way_on_doubtful_trials():
    assert give_way([Party("a", estimate(2.0, low=1.0)), Party("b", None)], LIMIT) is None


@settings(max_examples=30)
@given(st.floats(1.0, 4.0), st.floats(1.0, 4.0))
def test_no_job_is_slowed_beyond_the_limit_for_longer_than_it_takes_to_see_it(one, other):
    """Near the limit the trials may be unsure, so these slowdowns are left out."""
    if min(abs(one - LIMIT), abs(other - LIMIT)) < 0.03:
        return
    played = node(one, other)
    played.run(SEEN_S)
    before = {name: (job.done, job.slowed_ns) for name, job in played.jobs.items()}
    played.run(60)
    passed_ns = 60 * NS_PER_S
    first, second = played.jobs["first"], played.jobs["second"]
    assert first.done - before["first"][0] >= first.rate * 60 / LIMIT * 0.985
    # The last job may wait, but it is slowed for a small part of the time.
    if other > LIMIT and one <= LIMIT:
        slowed_ns = second.slowed_ns - before["second"][1]
        assert slowed_ns <= (LEAST_PERCENT / 100) * passed_ns + DUTY_NS
    assert second.done > before["second"][0]


@settings(max_examples=20)
@given(st.floats(1.0, 3.0), st.floats(1.0, 3.0), st.integers(20, 300))
def test_no_rest_outlasts_its_end(one, other, seconds):
    """The node that is played checks it at each moment."""
    played = node(one, other)
    played.run(seconds)
    if played.watch.giving is None:
        most_ns = max(0.01 * played.now_ns, FIRST_RESTS * SLICE_LEAST_NS)
        for job in played.jobs.values():
            assert job.rested_ns <= most_ns + NS_PER_S / 20
