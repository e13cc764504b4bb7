"""The bound of a workload, against schedules by hand and drawn ones."""

from dataclasses import replace
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.bench.measure.equal_speed import rescaled
from cosched.bench.results.results import JobResult, Run
from cosched.bench.results.summary import ratios, summarise_arms
from cosched.bench.run.arms import Arm
from cosched.bench.simulate.bound import BoundRun, bound_run, bound_runs
from cosched.bench.workload.file import JobSpec, Workload
from tests.unit.bench.bench_samples import failed_run


def bound(*jobs):
    """The bound of jobs with (submission, time alone, node times)."""
    results = (
        JobResult(f"j{n}", at_s, at_s, at_s + alone_s, 0.0, node_s)
        for n, (at_s, alone_s, node_s) in enumerate(jobs)
    )
    return BoundRun(Arm.BOUND, 1, tuple(results))


def figures(run):
    return run.makespan_s, run.mean_response_s


# --- by hand ---


def test_one_job_takes_its_time_alone():
    assert figures(bound((2.0, 5.0, {"n1": 3.0, "n2": 4.0}))) == (5.0, 5.0)


def test_jobs_that_only_compute_take_their_sum_and_the_shortest_first():
    run = bound((0.0, 3.0, {"n1": 3.0}), (0.0, 1.0, {"n1": 1.0}), (0.0, 2.0, {"n1": 2.0}))
    assert figures(run) == (6.0, (1 + 3 + 6) / 3)


def test_job_that_waits_is_filled_by_one_that_computes():
    run = bound((0.0, 10.0, {"n1": 4.0, "n2": 2.0}), (0.0, 6.0, {"n1": 6.0, "n2": 6.0}))
    # Both fit into the ten seconds of the first; node n1 serves 4 s, then 6 s.
    assert figures(run) == (10.0, 8.0)


def test_busiest_node_decides():
    run = bound((0.0, 4.0, {"n1": 4.0}), (0.0, 4.0, {"n2": 4.0}), (0.0, 3.0, {"n2": 3.0}))
    assert run.makespan_s == 7.0
    # On n2: 3 and 7; the job on n1 alone: 4.
    assert run.mean_response_s == (4 + 3 + 7) / 3


def test_stream_ends_with_the_work_that_is_left_after_the_last_pause():
    run = bound((1.0, 2.0, {"n1": 2.0}), (9.0, 2.0, {"n1": 2.0}), (10.0, 2.0, {"n1": 1.5}))
    # Idle from 3 to 9; the second one ends at 11, the third one at 12.5.
    assert run.makespan_s == 11.5
    assert run.mean_response_s == pytest.approx((2 + 2 + 2.5) / 3)


def test_unknown_node_times_leave_the_times_alone():
    assert figures(bound((0.0, 3.0, {}), (1.0, 5.0, {}))) == (6.0, 4.0)


# --- against drawn schedules ---

NODES = ("n1", "n2")
#: A phase computes on each node, then waits; in steps.
PHASES = st.lists(
    st.tuples(
        st.fixed_dictionaries({}, optional=dict.fromkeys(NODES, st.integers(1, 3))),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=3,
).filter(lambda phases: any(wait or work for work, wait in phases))
DRAWN = st.lists(st.tuples(st.integers(0, 8), PHASES), min_size=1, max_size=5)


def alone_steps(phases):
    return sum(max(work.values(), default=0) + wait for work, wait in phases)


class Running:
    """A job of a drawn schedule: its phases, and the step at which it ended."""

    def __init__(self, at, phases):
        self.at, self.ended = at, None
        self.left = [[dict(work), wait] for work, wait in phases]

    def needs(self, node):
        return bool(self.left) and self.left[0][0].get(node, 0) > 0

    def compute(self, node):
        self.left[0][0][node] -= 1

    def wait(self):
        self.left[0][1] -= 1

    def go_on(self, now):
        while self.left and not any(self.left[0][0].values()) and self.left[0][1] == 0:
            self.left.pop(0)
        if not self.left and self.ended is None:
            self.ended = now


def schedule(drawn, cpus, chance):
    """Runs the jobs: in each step each node serves up to ``cpus`` jobs, drawn by chance."""
    jobs = [Running(at, phases) for at, phases in drawn]
    now = 0
    while any(job.ended is None for job in jobs):
        here = [job for job in jobs if job.at <= now and job.ended is None]
        for job in here:
            job.go_on(now)
        waiting = [job for job in here if job.left and not any(job.left[0][0].values())]
        for node in NODES:
            ready = [job for job in here if job.needs(node)]
            chance.shuffle(ready)
            for job in ready[: chance.choice([cpus, cpus, cpus - 1])]:
                job.compute(node)
        for job in waiting:
            job.wait()
        now += 1
        for job in here:
            job.go_on(now)
    return jobs


@given(DRAWN, st.integers(1, 2), st.randoms(use_true_random=False))
def test_no_schedule_beats_the_bound(drawn, cpus, chance):
    run = bound(
        *(
            (
                float(at),
                float(alone_steps(phases)),
                {
                    node: steps / cpus
                    for node in NODES
                    if (steps := sum(work.get(node, 0) for work, _ in phases))
                },
            )
            for at, phases in drawn
        )
    )
    jobs = schedule(drawn, cpus, chance)
    first = min(job.at for job in jobs)
    assert run.makespan_s <= max(job.ended for job in jobs) - first + 1e-9
    assert run.mean_response_s <= fmean(job.ended - job.at for job in jobs) + 1e-9


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_bound_of_computing_jobs_is_reached_by_the_shortest_first(lengths):
    run = bound(*((0.0, float(s), {"n1": float(s), "n2": float(s)}) for s in lengths))
    ends = [sum(sorted(lengths)[: n + 1]) for n in range(len(lengths))]
    assert run.makespan_s == pytest.approx(sum(lengths))
    assert run.mean_response_s == pytest.approx(fmean(ends))


# --- from runs ---

WORKLOAD = Workload(
    "mix",
    "",
    (JobSpec("ft", 2, ("ft",), count=2), JobSpec("ep", 2, ("ep",), start_s=1.0)),
)
ALONE = Run(
    Arm.BOUND,
    1,
    (
        JobResult("ft.1", 0.0, 0.0, 6.0, 5.0, {"n1": 2.5, "n2": 2.0}),
        JobResult("ep", 0.0, 6.0, 10.0, 8.0, {"n1": 3.9, "n2": 3.9}),
    ),
    probe_us=300.0,
)


def batch(probe_us=300.0):
    jobs = (
        JobResult("ft.1", 0.0, 0.0, 5.0, 9.0),
        JobResult("ft.2", 0.0, 5.0, 12.0, 9.0),
        JobResult("ep", 1.0, 12.0, 17.0, 8.0),
    )
    return Run(Arm.BATCH, 1, jobs, probe_us=probe_us)


def test_each_job_has_the_node_times_of_its_program():
    run = bound_run(WORKLOAD, ALONE)
    assert [(job.name, job.submitted_s, job.response_s) for job in run.jobs] == [
        ("ft.1", 0.0, 6.0),
        ("ft.2", 0.0, 6.0),
        ("ep", 1.0, 4.0),
    ]
    assert run.jobs[1].node_s == {"n1": 2.5, "n2": 2.0}
    assert run.makespan_s == pytest.approx(2.5 + 2.5 + 3.9)


def test_shorter_time_alone_in_batch_counts():
    run = bound_run(WORKLOAD, ALONE, batch())
    assert [job.response_s for job in run.jobs] == [5.0, 6.0, 4.0]


def test_time_in_batch_is_taken_at_the_speed_of_the_run_alone():
    slow = bound_run(WORKLOAD, ALONE, batch(probe_us=600.0))
    assert [job.response_s for job in slow.jobs] == [2.5, 3.5, 2.5]
    # A job cannot use a node for longer than it lasts.
    assert slow.jobs[2].node_s == {"n1": 2.5, "n2": 2.5}


def test_rescaled_bound_is_that_of_the_rescaled_jobs():
    run = bound_run(WORKLOAD, ALONE)
    faster = rescaled(run, 150.0)
    assert isinstance(faster, BoundRun)
    # ft until 2.5, ep from then on: 1.95.
    assert faster.makespan_s == pytest.approx(4.45)
    # Alone: 3, 3 and 2. On n1: 1.25 and 2.5, then 3.45 after the submission of ep.
    assert faster.mean_response_s == pytest.approx(8 / 3)


def test_bounds_are_of_the_runs_that_ended_well():
    failed = failed_run(Arm.BOUND, 2)
    found = bound_runs(WORKLOAD, [ALONE, failed], [failed_run(Arm.BATCH, 1)])
    assert found == [bound_run(WORKLOAD, ALONE), failed]


def test_bound_is_compared_with_batch():
    alone = [replace(ALONE, repeat=n) for n in (1, 2)]
    runs = {Arm.BATCH: [batch()], Arm.BOUND: bound_runs(WORKLOAD, alone, [batch()])}
    by_name = {(ratio.arm, ratio.other): ratio for ratio in ratios(summarise_arms(runs))}
    ratio = by_name[Arm.BOUND, Arm.BATCH]
    assert ratio.makespan == pytest.approx(8.9 / 17)
    assert ratio.mean_response < 1
