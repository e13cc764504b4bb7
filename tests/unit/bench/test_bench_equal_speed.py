"""Runs as at the machine's usual speed."""

import pytest

from cosched.bench.measure.equal_speed import at_usual_speed, rescaled
from cosched.bench.results.results import JobResult, Run
from cosched.bench.results.summary import summarise
from cosched.bench.run.arms import Arm


def run(arm, probe_us, *jobs):
    results = tuple(JobResult(f"j.{n}", *times) for n, times in enumerate(jobs, 1))
    return Run(arm, 1, results, probe_us=probe_us)


def test_rescaled_run_keeps_times_of_submission():
    slow = run(Arm.COSCHED, 600.0, (0.0, 2.0, 20.0, 8.0), (100.0, 104.0, 120.0, 8.0))
    even = rescaled(slow, 300.0)
    assert even.probe_us == 300.0
    assert [(j.submitted_s, j.started_s, j.ended_s, j.cpu_s) for j in even.jobs] == [
        (0.0, 1.0, 10.0, 4.0),
        (100.0, 102.0, 110.0, 4.0),
    ]
    assert rescaled(run(Arm.KERNEL, None, (0.0, 0.0, 1.0, 1.0)), 300.0).jobs[0].ended_s == 1


def test_rescaled_run_keeps_its_idle_time():
    groups = [
        [run(Arm.KERNEL, 300.0, (0.0, 0.0, 10.0, 9.0), (100.0, 100.0, 110.0, 9.0))],
        [run(Arm.COSCHED, 450.0, (0.0, 0.0, 15.0, 13.0), (100.0, 100.0, 115.0, 13.0))],
    ]
    kernel, cosched = at_usual_speed([summarise(runs[0].arm, runs) for runs in groups])
    ratio = cosched.makespan_s.median / kernel.makespan_s.median
    assert ratio == pytest.approx(1.0, abs=0.01)
