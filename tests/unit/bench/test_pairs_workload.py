"""The jobs of two coupled clusters, as they are submitted and simulated."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.coupling_domains import granted_limit_s
from benchmarks.experiments.pairs.costs import Costs, first_begin
from benchmarks.experiments.pairs.simulated import spread
from benchmarks.experiments.pairs.turns import fitted_turn_s, queued_jobs
from benchmarks.experiments.pairs.workload import (
    Plan,
    as_log,
    as_logs,
    limit_of,
    plan_jobs,
    varied,
)
from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.workload import Estimates
from cosched.sim.queue.queue_runs import simulate

PLAN = Plan(pairs=20, unpaired=40, nodes=8, run_s=30.0)
NAMES = ("intrepid", "eureka")


def test_slurm_grants_whole_minutes():
    wanted = [1.0, 60.0, 61.0, 120.0]
    assert [granted_limit_s("slurm", each) for each in wanted] == [60, 60, 120, 120]
    assert [granted_limit_s("native", each) for each in wanted] == wanted


def test_jobs_of_a_pair_are_submitted_within_a_second():
    at_s = {}
    for jobs in plan_jobs(PLAN):
        assert [job.at_s for job in jobs] == sorted(job.at_s for job in jobs)
        for job in filter(lambda job: job.group, jobs):
            at_s.setdefault(job.group, []).append(job.at_s)
    assert len(at_s) == PLAN.pairs
    assert all(max(both) - min(both) < 1 for both in at_s.values())


def test_simulated_jobs_have_the_limits_and_delays_of_their_clusters():
    planned = plan_jobs(PLAN)
    logs, mates = as_logs(NAMES, ("native", "slurm"), PLAN, planned, (0.1, 0.5), (0.0, 0.4))
    assert len(mates) == PLAN.pairs
    for jobs, log, engine, lag_s, turn_s in zip(
        planned, logs, ("native", "slurm"), (0.1, 0.5), (0.0, 0.4), strict=True
    ):
        for index, job in enumerate(jobs):
            assert log.submit_ns[index] == round((job.at_s + lag_s) * NS_PER_S)
            assert log.run_ns[index] == round((job.run_s + turn_s) * NS_PER_S)
            limit_s = granted_limit_s(engine, limit_of(job.run_s))
            assert log.walltime_ns[index] == round(limit_s * NS_PER_S)
            assert job.run_s < limit_s
    for pair in mates:
        assert planned[0][pair[0]].group == planned[1][pair[1]].group


def test_time_between_jobs_is_found_from_a_queue():
    jobs = queued_jobs(8)
    log = as_log("queue", "slurm", 8, jobs, lag_s=0.5, turn_s=0.7)
    schedule, _ = simulate(log, "easy", Estimates.LOG)
    waits_s = [start_ns / NS_PER_S for start_ns in schedule.start_ns]
    assert fitted_turn_s("slurm", 8, jobs, waits_s, 0.5) == pytest.approx(0.7, abs=0.01)
    longer_s = [wait_s + 0.5 for wait_s in waits_s]
    assert fitted_turn_s("slurm", 8, jobs, longer_s, 0.5) > 0.75


def test_job_that_has_begun_twice_is_an_error(tmp_path):
    path = tmp_path / "eureka.3"
    assert first_begin(path, 1) is None
    path.write_text("12.5\n11.")
    assert first_begin(path, 1) == 12.5
    path.write_text("slurmstepd-eureka1: error: 2 of 3\n12.5\n11.25\n")
    assert first_begin(path, 2) == 11.25
    with pytest.raises(CoschedError, match=r"eureka\.3 has begun twice: \[12\.5, 11\.25\]"):
        first_begin(path, 1)


def test_spread_is_of_simulations_whose_jobs_are_varied():
    costs = [Costs(0.1, 0.1, 0.1), Costs(0.4, 0.4, 0.1)]
    found = spread(PLAN, ("native", "slurm"), "HY", costs)
    planned = varied(plan_jobs(PLAN), Random(PLAN.seed))
    assert [len(jobs) for jobs in planned] == [len(jobs) for jobs in plan_jobs(PLAN)]
    assert all(each["together"] == PLAN.pairs for each in found.values())
    least, mean, most = (found[kind]["domains"] for kind in ("least", "mean", "most"))
    for name in NAMES:
        for key, value in mean[name].items():
            assert least[name][key] <= value <= most[name][key]
        waits_s = [each[name]["mean_wait_s"] for each in (least, mean, most)]
        assert waits_s[0] < waits_s[1] < waits_s[2]
