"""The time that a bench may take: a stepped clock, and runs without end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from cosched.bench.results.run_store import RunStore
from cosched.bench.run.arms import Arm, Setup
from cosched.bench.run.budget import Budget
from cosched.bench.run.progress import Progress
from cosched.bench.run.repeats import Point, run_all
from cosched.bench.workload.file import Workload
from tests.unit.bench.bench_samples import failed_run, run

ARMS = (Arm.BATCH, Arm.KERNEL, Arm.COSCHED)


@dataclass
class Clock:
    now_s: float = 1000.0

    def __call__(self):
        return self.now_s


@dataclass(frozen=True)
class SteppedSession:
    """A session whose runs take ``takes_s``, or fail at the limit."""

    clock: Clock
    takes_s: float
    limit_s: float = math.inf
    limits: list = field(default_factory=list)
    workload: Workload = Workload("demo", "", ())

    def limited_to(self, limit_s):
        return replace(self, limit_s=min(self.limit_s, limit_s))

    def run_once(self, setup, repeat, _progress):
        self.limits.append(self.limit_s)
        self.clock.now_s += min(self.takes_s, self.limit_s)
        if self.takes_s > self.limit_s:
            return failed_run(setup.arm, repeat)
        return run(setup.arm, repeat, (self.takes_s,))


def measure(takes_s, within_s, repeats=3):
    """Returns the runs of each arm, the limits, the lines and the time that all took."""
    clock, lines = Clock(), []
    session = SteppedSession(clock, takes_s)
    points = [Point(session, Setup(arm), arm.value) for arm in ARMS]
    budget = Budget(within_s, clock)
    found = run_all(points, repeats, RunStore({}), Progress(lines.append), budget)
    runs = {name: len(runs) for (_, name), runs in found.items()}
    return runs, session.limits, lines, clock.now_s - 1000.0


@pytest.mark.parametrize("within_s", [90.0, math.inf])
def test_quick_runs_are_all_made(within_s):
    runs, _, lines, took_s = measure(10.0, within_s)
    assert set(runs.values()) == {3}
    assert (len(lines), took_s) == (9, 90.0)


def test_slow_machine_gets_fewer_rounds_and_one_line():
    runs, _, lines, took_s = measure(20.0, 170.0)
    assert set(runs.values()) == {2}
    assert lines[6:] == ["no further round: the latest one took 60 s, and 50 s are left"]
    assert took_s == 120.0


def test_runs_without_end_share_the_time_of_one_round():
    runs, limits, lines, took_s = measure(math.inf, 90.0)
    assert limits == [30.0, 30.0, 30.0]
    assert set(runs.values()) == {1}
    assert lines[-1].startswith("no further round: ")
    assert took_s == 90.0


def test_later_runs_get_what_earlier_ones_left():
    _, limits, _, _ = measure(10.0, 120.0, repeats=1)
    assert limits == [40.0, 55.0, 100.0]
    assert all(before < after for before, after in pairwise(limits))
