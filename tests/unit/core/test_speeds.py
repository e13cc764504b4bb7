"""Speeds alone and beside others, from trials."""

from __future__ import annotations

from math import inf
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.symbiosis.speeds import (
    LEAST_TRIALS,
    SETS_MOST,
    TRIALS_MOST,
    Measure,
    Sample,
    Speeds,
    Stretch,
    Trial,
    Work,
    bounds,
)
from cosched.core.units import NS_PER_S

B = frozenset({"b"})
SECOND = NS_PER_S


def stretch(marks=0, messages=0, useful=0.0, lasted_ns=SECOND):
    return Stretch(lasted_ns, marks, messages, int(useful * NS_PER_S))


def trial(before, alone, after, beside=B):
    return Trial(beside, stretch(before), stretch(alone), stretch(after))


def sample(now_s, work, age_s=None):
    age_ns = int((now_s if age_s is None else age_s) * NS_PER_S)
    return Sample(int(now_s * NS_PER_S), age_ns, work)


def test_slowdown_is_the_speed_alone_over_the_mean_beside():
    speeds = Speeds()
    speeds.add(trial(90, 120, 110))
    found = speeds.beside(B)
    assert (found.measure, found.trials) == (Measure.ITERATIONS, 1)
    assert (found.alone, found.beside, found.slowdown) == (120, 100, pytest.approx(1.2))
    assert (found.low, found.high) == (0, inf)


def test_steady_drift_of_a_program_is_no_slowdown():
    speeds = Speeds()
    speeds.add(trial(100, 110, 120))
    assert speeds.beside(B).slowdown == 1.0


def test_program_without_marks_is_measured_by_messages_and_otherwise_by_useful_time():
    by_messages = Trial(B, *(stretch(messages=n, useful=0.5) for n in (50, 100, 50)))
    assert by_messages.measure is Measure.MESSAGES
    by_time = Trial(B, *(stretch(useful=part) for part in (0.4, 0.8, 0.4)))
    assert by_time.measure is Measure.USEFUL
    speeds = Speeds()
    speeds.add(by_time)
    assert speeds.beside(B).slowdown == 2.0


def test_trial_with_few_marks_is_coarse():
    few = Trial(B, *(Stretch(SECOND, 1, 500, SECOND) for _ in range(3)))
    assert few.measure is Measure.MESSAGES
    assert few.is_coarse
    assert not trial(30, 30, 30).is_coarse


def test_job_that_stands_still_beside_others_is_infinitely_slow():
    speeds = Speeds()
    for _ in range(LEAST_TRIALS):
        speeds.add(trial(0, 40, 0))
    found = speeds.beside(B)
    assert found.slowdown == inf
    assert found.is_beyond(1.1)


def test_trials_by_a_better_measure_replace_the_others():
    speeds = Speeds()
    speeds.add(Trial(B, *(stretch(messages=n) for n in (50, 100, 50))))
    speeds.add(trial(100, 100, 100))
    speeds.add(Trial(B, *(stretch(messages=n) for n in (50, 100, 50))))
    found = speeds.beside(B)
    assert (found.measure, found.trials, found.slowdown) == (Measure.ITERATIONS, 1, 1.0)


def test_nothing_is_known_beside_others():
    speeds = Speeds()
    assert speeds.beside(B) is None
    speeds.add(Trial(B, *(stretch() for _ in range(3))))
    assert speeds.all() == {}


def test_memory_is_bounded():
    speeds = Speeds()
    for number in range(SETS_MOST + 3):
        speeds.add(trial(100, 100, 100, frozenset({f"job{number}"})))
    for _ in range(TRIALS_MOST + 3):
        speeds.add(trial(100, 100, 100, frozenset({"last"})))
    found = speeds.all()
    assert len(found) == SETS_MOST
    assert frozenset({"job0"}) not in found
    assert found[frozenset({"last"})].trials == TRIALS_MOST


def test_readings_become_a_trial():
    readings = [
        sample(1, Work(100, 10, cpu_ns=5 * SECOND, waits_ns=0, tasks=2)),
        sample(2, Work(150, 15, cpu_ns=6 * SECOND, waits_ns=SECOND, tasks=2)),
        sample(3, Work(250, 25, cpu_ns=8 * SECOND, waits_ns=SECOND, tasks=2)),
        sample(4, Work(300, 30, cpu_ns=10 * SECOND, waits_ns=2 * SECOND, tasks=2)),
    ]
    found = Trial.of(B, readings)
    assert (found.before.marks, found.alone.marks, found.after.marks) == (50, 100, 50)
    # The last second has two seconds of CPU time, of which one is a wait that spins.
    times = [s.useful_ns / SECOND for s in (found.before, found.alone, found.after)]
    assert times == [1.0, 2.0, 1.0]


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s[:3],  # a reading is missing
        lambda s: [*s[:2], s[1], s[3]],  # no time passed
        lambda s: [*s[:2], s[2]._replace(age_ns=0), s[3]],  # another job had the CPUs
        lambda s: [*s[:3], s[3]._replace(work=s[3].work._replace(tasks=1))],  # one left
        lambda s: [*s[:3], s[3]._replace(work=s[3].work._replace(marks=0))],
    ],
)
def test_disturbed_readings_are_no_trial(change):
    readings = [sample(n, Work(100 * n, 0, n * SECOND, 0, 2)) for n in range(1, 5)]
    assert Trial.of(B, readings) is not None
    assert Trial.of(B, change(readings)) is None


def test_job_without_neighbours_has_no_trial():
    readings = [sample(n, Work(100 * n, 0, n * SECOND, 0, 2)) for n in range(1, 5)]
    assert Trial.of(frozenset(), readings) is None


@pytest.mark.parametrize(
    ("count", "low", "high"), [(4, 0, inf), (5, 1, 5), (7, 1, 7), (8, 2, 7), (20, 6, 15)]
)
def test_bounds_of_the_median_are_order_statistics(count, low, high):
    assert bounds([float(n) for n in range(count, 0, -1)]) == (low, high)


@given(
    st.floats(1.0, 5.0),
    st.lists(st.tuples(*[st.floats(-0.02, 0.02)] * 3), min_size=LEAST_TRIALS, max_size=60),
)
def test_slowdown_is_found_despite_noise(slowdown, noise):
    speeds = Speeds()
    for before, alone, after in noise:
        speeds.add(
            trial(
                round(100_000 / slowdown * (1 + before)),
                round(100_000 * (1 + alone)),
                round(100_000 / slowdown * (1 + after)),
            )
        )
    found = speeds.beside(B)
    assert found.low <= found.slowdown <= found.high
    assert found.slowdown == pytest.approx(slowdown, rel=0.05)
    assert not (found.is_beyond(1.1) and slowdown < 1.1 / 1.05)
    assert not (found.is_within(1.1) and slowdown > 1.1 * 1.05)


@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40))
def test_bounds_enclose_the_median(values):
    low, high = bounds(values)
    assert low <= median(values) <= high
