"""Properties of weights and quotas, whatever the percents and widths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.linux.cgroups.shares import (
    CPU_SHARES,
    CPU_WEIGHT,
    PERIOD_US,
    QUOTA_MIN_US,
    UNLIMITED_US,
    WeightScale,
    in_order,
    normal_weights,
    quotas,
    weights,
    width,
)

SCALES = pytest.mark.parametrize("scale", [CPU_SHARES, CPU_WEIGHT], ids=["v1", "v2"])
WIDTH = st.integers(1, 1024)
JOBS = st.dictionaries(
    st.sampled_from("abcdefgh"), st.tuples(st.integers(1, 100), WIDTH), min_size=1
)


def split(jobs: dict[str, tuple[int, int]]) -> tuple[dict[str, int], dict[str, int]]:
    return {j: v[0] for j, v in jobs.items()}, {j: v[1] for j, v in jobs.items()}


def weigh(
    percents: dict[str, int], widths: dict[str, int], scale: WeightScale
) -> dict[str, int]:
    return weights(percents, widths, scale, max(widths.values()))


@given(cpus=WIDTH, members=st.integers(1, 2000))
def test_unscheduled_width_is_at_most_its_tasks(cpus: int, members: int) -> None:
    assert width(1, cpus, members) == min(cpus, members)
    assert width(1, cpus, 0) == width(99, cpus, members) == cpus


@SCALES
def test_unscheduled_task_on_many_cpus_gets_one_percent(scale: WeightScale) -> None:
    """64 jobs of one task are scheduled on 64 CPUs, one more waits."""
    percents = {"on": 99, "off": 1}
    widths = {job: width(percent, 64, 1) for job, percent in percents.items()}
    found = weights(percents, widths, scale, 64)
    # Each has all of its weight on the one CPU where it runs.
    assert found["off"] / found["on"] < 0.015


@SCALES
@given(jobs=JOBS)
def test_weights_stay_in_range(
    scale: WeightScale, jobs: dict[str, tuple[int, int]]
) -> None:
    for weight in weigh(*split(jobs), scale).values():
        assert scale.low <= weight <= scale.high


@SCALES
@given(jobs=JOBS)
def test_weight_for_a_cpu_follows_the_percent(
    scale: WeightScale, jobs: dict[str, tuple[int, int]]
) -> None:
    """On a CPU that jobs of any width share, they meet in the ratio of their percents."""
    percents, widths = split(jobs)
    found = weigh(percents, widths, scale)
    unit = scale.high / max(widths.values()) / 100
    for job, weight in found.items():
        exact = percents[job] * widths[job] * unit
        assert abs(weight - max(scale.low, exact)) <= 0.5 + 1e-6


@SCALES
@given(jobs=JOBS)
def test_a_greater_percent_never_weighs_less(
    scale: WeightScale, jobs: dict[str, tuple[int, int]]
) -> None:
    percents, widths = split(jobs)
    more = {job: min(100, percent + 1) for job, percent in percents.items()}
    before, after = weigh(percents, widths, scale), weigh(more, widths, scale)
    assert all(before[job] <= after[job] for job in jobs)


@SCALES
@given(jobs=JOBS, one=st.sampled_from("abcdefgh"))
def test_weights_do_not_depend_on_other_percents(
    scale: WeightScale, jobs: dict[str, tuple[int, int]], one: str
) -> None:
    percents, widths = split(jobs)
    if one in percents:
        part = weigh({one: percents[one]}, widths, scale)
        assert part[one] == weigh(percents, widths, scale)[one]


@SCALES
@given(widths=st.dictionaries(st.sampled_from("abcd"), WIDTH, min_size=1))
def test_normal_weights(scale: WeightScale, widths: dict[str, int]) -> None:
    normal = normal_weights(widths, scale)
    assert all(scale.low <= weight <= scale.high for weight in normal.values())
    if max(widths.values()) * scale.one_cpu <= scale.high:
        assert normal == {job: width * scale.one_cpu for job, width in widths.items()}


@given(jobs=JOBS)
def test_quotas(jobs: dict[str, tuple[int, int]]) -> None:
    percents, widths = split(jobs)
    for job, quota in quotas(percents, widths).items():
        if percents[job] == 100:
            assert quota == UNLIMITED_US
        else:
            assert QUOTA_MIN_US <= quota < widths[job] * PERIOD_US
            assert quota == percents[job] * widths[job] * PERIOD_US // 100


VALUES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 5))


@given(old=VALUES, new=VALUES)
def test_falling_values_are_written_first(old: dict[str, int], new: dict[str, int]) -> None:
    written: dict[str, int | None] = {job: old.get(job) for job in new}
    order = in_order(new, written)
    assert dict(order) == {job: v for job, v in new.items() if written[job] != v}
    assert len(order) == len(dict(order))
    rises = [(written[job] or 0) < value for job, value in order if written[job]]
    assert rises == sorted(rises)


@given(widths=st.dictionaries(st.sampled_from("abcd"), WIDTH, min_size=2))
def test_switch_never_gives_the_cpu_twice(widths: dict[str, int]) -> None:
    """At no moment between the writes do two jobs have more than the unscheduled share."""
    jobs = sorted(widths)
    low = dict.fromkeys(jobs, 1)
    before = weigh({**low, jobs[0]: 101 - len(jobs)}, widths, CPU_SHARES)
    after = weigh({**low, jobs[1]: 101 - len(jobs)}, widths, CPU_SHARES)
    now = dict(before)
    for job, value in in_order(after, dict(before)):
        now[job] = value
        assert now[jobs[0]] < before[jobs[0]] or now[jobs[1]] == before[jobs[1]]
    assert now == after
