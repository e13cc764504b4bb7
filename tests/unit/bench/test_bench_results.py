"""Medians, spreads, ratios; which runs count; how much load came from outside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.bench.measure.load import LoadSample, OutsideLoad, outside_load
from cosched.bench.results.results import Activity, JobResult, Run
from cosched.bench.results.slowdown import bounded_slowdown
from cosched.bench.results.summary import Spread, ratios, spread, summarise, summarise_arms
from cosched.bench.run import daemons
from cosched.bench.run.arms import Arm, parse_arms
from cosched.bench.run.repeats import interleave
from cosched.core.errors import CoschedError
from tests.unit.bench.bench_samples import (
    BATCH,
    COSCHED,
    KERNEL,
    failed_run,
    run,
    summaries,
)


def test_response_and_makespan_count_from_submission():
    jobs = (JobResult("a", 1.0, 1.0, 3.0, 0.5), JobResult("b", 2.0, 3.0, 7.0, 0.5))
    result = Run(Arm.KERNEL, 1, jobs)
    assert [job.response_s for job in jobs] == [2.0, 5.0]
    assert result.mean_response_s == 3.5
    assert result.mean_wait_s == 0.5
    assert result.makespan_s == 6.0


def test_medians_and_spreads():
    batch = summarise(Arm.BATCH, BATCH)
    assert batch.makespan_s == Spread(3.2, 3.1, 3.3)
    assert batch.mean_response_s == Spread(*map(pytest.approx, (2.4, 2.35, 2.5)))
    assert [job.name for job in batch.jobs] == ["wavefront.1", "wavefront.2"]
    assert batch.jobs[0].response_s == Spread(1.6, 1.6, 1.7)
    assert batch.jobs[1].cpu_s == Spread(3.2, 3.2, 3.2)


def test_only_the_arms_own_runs_count():
    assert summarise(Arm.BATCH, (*BATCH, *KERNEL)) == summarise(Arm.BATCH, BATCH)


def test_disturbed_runs_are_discarded():
    kernel = summarise(Arm.KERNEL, KERNEL)
    assert kernel.counted == KERNEL[:2]
    assert kernel.discarded == (KERNEL[2],)
    assert kernel.makespan_s == Spread(pytest.approx(4.3), 4.2, 4.4)
    assert not kernel.all_disturbed


def test_disturbed_runs_count_if_there_are_no_others():
    kernel = summarise(Arm.KERNEL, KERNEL[2:])
    assert kernel.counted == KERNEL[2:]
    assert kernel.all_disturbed


def test_failed_runs_never_count():
    arm = summarise(Arm.COSCHED, (*COSCHED[:1], failed_run(Arm.COSCHED, 2)))
    assert arm.counted == COSCHED[:1]
    assert arm.failed
    nothing = summarise(Arm.COSCHED, [failed_run(Arm.COSCHED, 1)])
    assert (nothing.mean_response_s, nothing.makespan_s, nothing.jobs) == (None, None, ())


def test_ratios_are_of_medians():
    found = ratios(summaries(BATCH, KERNEL, COSCHED))
    pairs = [(ratio.arm, ratio.other) for ratio in found]
    assert pairs == [
        (Arm.COSCHED, Arm.KERNEL),
        (Arm.COSCHED, Arm.BATCH),
        (Arm.KERNEL, Arm.BATCH),
    ]
    assert found[0].makespan == pytest.approx(3.4 / 4.3)
    assert found[0].mean_response == pytest.approx(3.15 / 4.225)
    assert not found[0].responses_overlap


def test_arm_without_figures_has_no_ratios():
    failed = [failed_run(Arm.KERNEL, 1)]
    found = ratios(summaries(BATCH, failed, COSCHED))
    assert [(r.arm, r.other) for r in found] == [(Arm.COSCHED, Arm.BATCH)]


def test_overlapping_runs_are_detected():
    wide = (run(Arm.COSCHED, 1, (2, 2)), run(Arm.COSCHED, 2, (4.1, 4.1)))
    (found,) = ratios(summaries(KERNEL, wide))
    assert found.responses_overlap


def test_slowdown_is_bounded():
    assert bounded_slowdown(6.0, 2.0) == 3.0
    assert bounded_slowdown(1.9, 2.0) == 1.0
    assert bounded_slowdown(4.0, 0.1) == 4.0


def test_slowdowns_go_by_the_time_alone_in_batch():
    """Batch starts the second job when the first one has ended."""
    batch = Run(
        Arm.BATCH, 1, (JobResult("a", 0.0, 0.0, 4.0, 1.0), JobResult("b", 1.0, 4.0, 6.0, 1))
    )
    kernel = run_of(Arm.KERNEL, a=(0.0, 6.0), b=(1.0, 5.0))
    found = summarise_arms({Arm.KERNEL: [kernel], Arm.BATCH: [batch]})
    shown = {s.arm: (s.mean_slowdown.median, s.worst_slowdown.median) for s in found}
    assert shown == {Arm.KERNEL: (1.75, 2.0), Arm.BATCH: (1.75, 2.5)}
    assert found[0].lengths_s == {"a": 4.0, "b": 2.0}


def run_of(arm, **times):
    jobs = (JobResult(name, at, at, end, 1.0) for name, (at, end) in times.items())
    return Run(arm, 1, tuple(jobs))


def test_lengths_are_medians_of_the_counted_runs_of_batch():
    slow = run(Arm.BATCH, 4, (9.0, 9.0), share=0.31)
    batch, _ = summaries((*BATCH, slow, failed_run(Arm.BATCH, 5)), KERNEL)
    assert batch.lengths_s == {"wavefront.1": 1.6, "wavefront.2": 3.2}


@given(st.lists(st.floats(0.001, 1e6), min_size=1))
def test_median_lies_within_the_spread(values):
    found = spread(values)
    assert found.low == min(values)
    assert found.high == max(values)
    assert found.low <= found.median <= found.high


# --- arms ---


def test_arms_are_parsed_in_the_order_given():
    assert parse_arms("cosched, batch") == (Arm.COSCHED, Arm.BATCH)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "batch,none",
            "--arms: 'none' is not an arm; "
            "the arms are batch, kernel, yield, block, gang, slurm-gang, "
            "messages, paper, strict, proportional, cosched",
        ),
        (
            "batch,srpt",
            "--arms: 'srpt' is not an arm; "
            "the arms are batch, kernel, yield, block, gang, slurm-gang, "
            "messages, paper, strict, proportional, cosched",
        ),
        ("batch,batch", "--arms: 'batch' is given twice; name each arm once"),
        (
            "",
            "--arms: '' is not an arm; "
            "the arms are batch, kernel, yield, block, gang, slurm-gang, "
            "messages, paper, strict, proportional, cosched",
        ),
    ],
)
def test_wrong_arms_get_one_line(text, message):
    with pytest.raises(CoschedError) as caught:
        parse_arms(text)
    assert str(caught.value) == message


def test_calculated_arms_need_batch():
    assert parse_arms("las,batch", tuple(Arm)) == (Arm.LAS, Arm.BATCH)
    with pytest.raises(CoschedError) as caught:
        parse_arms("kernel,las", tuple(Arm))
    assert str(caught.value) == (
        "--arms: 'las' is calculated from the runs of batch; add batch"
    )


def test_each_repeat_begins_with_another_arm():
    order = interleave((Arm.BATCH, Arm.KERNEL, Arm.COSCHED), 4)
    letters = "".join(arm.value[0] for arm, _ in order)
    assert letters == "bkckcbcbkbkc"
    assert [repeat for _, repeat in order] == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3


@given(st.sets(st.sampled_from(Arm), min_size=1), st.integers(1, 9))
def test_every_arm_runs_once_a_repeat(arms, repeats):
    order = interleave(tuple(arms), repeats)
    assert len(set(order)) == len(order) == len(arms) * repeats


# --- outside load ---


def test_outside_load_is_the_rest_of_busy_time():
    before = LoadSample(at_s=10.0, busy_s=100.0, overhead_s=1.0)
    after = LoadSample(at_s=15.0, busy_s=109.0, overhead_s=1.4)
    found = outside_load(before, after, jobs_s=8.0, cpus=2)
    assert found.capacity_s == 10.0
    assert found.outside_s == pytest.approx(0.6)
    assert found.share == pytest.approx(0.06)
    assert found.disturbed


def test_short_ticks_give_no_negative_load():
    found = OutsideLoad(busy_s=7.9, jobs_s=8.0, overhead_s=0.1, capacity_s=10)
    assert found.outside_s == 0.0
    assert not found.disturbed


def test_daemon_that_ended_adds_no_load():
    before = LoadSample(0.0, 0.0, 5.0)
    after = LoadSample(1.0, 1.0, 0.1)
    assert outside_load(before, after, 1.0, 1).overhead_s == 0.0


@given(*[st.floats(0, 1e6)] * 4, st.integers(1, 512))
def test_load_share_is_never_negative(elapsed_s, busy_s, jobs_s, overhead_s, cpus):
    found = outside_load(
        LoadSample(0.0, 0.0, 0.0),
        LoadSample(elapsed_s, busy_s, overhead_s),
        jobs_s,
        cpus,
    )
    assert found.share >= 0.0


# --- what the daemons did ---


def test_activity_is_summed_over_nodes():
    answers = {
        "lab1": {"counters": {"reg_new_job": 2, "reg_new_task": 1, "csw_switched": 5}},
        "lab2": {"counters": {"reg_new_job": 3, "reg_before_tasks": 1, "sch_granted": 7}},
    }
    assert daemons.activity(answers) == Activity(5, 5, 7)
    assert daemons.activity({}) is None


def test_activity_of_a_run_is_a_difference():
    assert Activity(6, 5, 4).since(Activity(2, 2, 2)) == Activity(4, 3, 2)
