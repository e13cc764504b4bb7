"""The ideal schedules of one machine, against schedules by hand and by other rules."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.bench.results.results import JobResult, Run
from cosched.bench.run.arms import Arm
from cosched.bench.simulate.ideal import (
    Served,
    Work,
    calculated_run,
    calculated_runs,
    las,
    srpt,
)
from tests.unit.bench.bench_samples import failed_run, load


def works(*pairs):
    return [Work(*pair) for pair in pairs]


def ends(served):
    return [one.ended_s for one in served]


# --- by hand ---


def test_srpt_interrupts_a_job_for_a_shorter_rest():
    # 0-1 a, 1-3 b, 3-4 d (arrived at 2.5 with a rest of 1), 4-10 a, 10-19 c
    served = srpt(works((0.0, 7.0), (1.0, 2.0), (1.0, 9.0), (2.5, 1.0)))
    assert served == [Served(0, 10), Served(1, 3), Served(10, 19), Served(3, 4)]


def test_srpt_finishes_a_job_whose_rest_is_shorter():
    # At 3 the first job has a rest of 1, the second one needs 2.
    assert srpt(works((0.0, 4.0), (3.0, 2.0))) == [Served(0, 4), Served(4, 6)]


def test_las_shares_between_the_jobs_that_ran_least():
    # 0-2 a alone; 2-4 b alone, until it has had 2 as well; 4-6 both: b has 3 and ends;
    # a needs another second.
    assert las(works((0.0, 4.0), (2.0, 3.0))) == [Served(0, 7), Served(2, 6)]


def test_las_shares_equally_between_equal_jobs():
    served = las(works((0.0, 1.0), (0.0, 2.0), (0.0, 2.0)))
    assert ends(served) == [3.0, 5.0, 5.0]
    assert [one.started_s for one in served] == [0.0] * 3


def test_las_serves_a_newcomer_alone():
    # a and b have had 1 each at 2, when c arrives and needs 0.5; then they share again.
    served = las(works((0.0, 2.0), (0.0, 2.0), (2.0, 0.5)))
    assert ends(served) == [4.5, 4.5, 2.5]


@pytest.mark.parametrize("schedule", [srpt, las])
def test_machine_waits_for_later_jobs(schedule):
    assert schedule(works((1.0, 2.0), (10.0, 1.0))) == [Served(1, 3), Served(10, 11)]
    assert schedule([]) == []


# --- against other rules ---

JOBS = st.lists(
    st.builds(Work, st.integers(0, 20).map(float), st.integers(1, 40).map(lambda n: n / 4)),
    min_size=1,
    max_size=8,
)


def by_rank(jobs, ranks):
    """Runs the job of the least rank that has arrived, in steps of a quarter second."""
    rests = [round(job.length_s * 4) for job in jobs]
    found = [0.0] * len(jobs)
    step = 0
    while any(rests):
        waiting = [
            n for n, job in enumerate(jobs) if rests[n] and job.arrives_s * 4 <= step
        ]
        step += 1
        if waiting:
            first = min(waiting, key=lambda n: ranks[n])
            rests[first] -= 1
            found[first] = step / 4
    return found


def mean_response_s(jobs, ended_s):
    pairs = zip(jobs, ended_s, strict=True)
    return math.fsum(end_s - job.arrives_s for job, end_s in pairs) / len(jobs)


@given(JOBS, st.randoms(use_true_random=False))
def test_no_schedule_has_a_lower_mean_than_srpt(jobs, chance):
    least_s = mean_response_s(jobs, ends(srpt(jobs)))
    arrivals = [job.arrives_s for job in jobs]
    drawn = [chance.random() for _ in jobs]
    others = [by_rank(jobs, arrivals), by_rank(jobs, drawn), ends(las(jobs))]
    assert all(least_s <= mean_response_s(jobs, ended_s) + 1e-9 for ended_s in others)


@given(JOBS)
def test_busy_machine_ends_at_the_same_time(jobs):
    first_come = max(by_rank(jobs, [job.arrives_s for job in jobs]))
    assert max(ends(srpt(jobs))) == pytest.approx(first_come)
    assert max(ends(las(jobs))) == pytest.approx(first_come)


@given(JOBS)
def test_no_job_ends_before_it_can(jobs):
    for schedule in (srpt, las):
        for job, served in zip(jobs, schedule(jobs), strict=True):
            assert served.started_s >= job.arrives_s
            assert served.ended_s >= job.arrives_s + job.length_s - 1e-9


@given(JOBS)
def test_jobs_that_arrive_together_end_in_order_of_length(jobs):
    together = [Work(3.0, job.length_s) for job in jobs]
    by_length = sorted(together, key=lambda job: job.length_s)
    for schedule in (srpt, las):
        found = ends(schedule(by_length))
        assert found == sorted(found)


# --- runs ---


def test_calculated_run_takes_lengths_and_arrivals_from_batch():
    batch = Run(
        Arm.BATCH,
        2,
        (JobResult("a", 0.0, 0.0, 6.0, 5.0), JobResult("b", 1.0, 6.0, 8.0, 1.5)),
        load(0.01),
        probe_us=300.0,
    )
    run = calculated_run(Arm.SRPT, batch)
    assert run == Run(
        Arm.SRPT,
        2,
        (JobResult("a", 0.0, 0.0, 8.0, 5.0), JobResult("b", 1.0, 1.0, 3.0, 1.5)),
        load(0.01),
        probe_us=300.0,
    )
    assert run.mean_response_s == 5.0


def test_failed_run_of_batch_gives_none():
    assert calculated_runs(Arm.LAS, [failed_run(Arm.BATCH, 1)]) == []
