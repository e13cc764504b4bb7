"""Generated workloads: sound, alike for a seed, and as asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.generate import ROUND_S, Recipe, generate
from cosched.sim.queue.metrics import summarise


@given(
    jobs=st.integers(1, 40),
    machine=st.integers(1, 5000),
    load=st.floats(0.01, 3),
    seed=st.integers(0, 2**64),
)
@settings(deadline=None)
def test_every_workload_is_sound(jobs, machine, load, seed):
    recipe = Recipe(jobs=jobs, machine=machine, load=load, seed=seed)
    workload = generate(recipe)
    assert len(workload) == jobs
    assert all(one <= other for one, other in pairwise(workload.submit_ns))
    assert all(1 <= size <= machine for size in workload.size)
    assert all(run >= NS_PER_S for run in workload.run_ns)
    assert {walltime // NS_PER_S for walltime in workload.walltime_ns} <= set(ROUND_S)
    assert all(
        run <= walltime
        for run, walltime in zip(workload.run_ns, workload.walltime_ns, strict=True)
    )
    assert generate(recipe) == workload


def test_another_seed_is_another_workload():
    one, other = (generate(Recipe(jobs=20, machine=64, seed=seed)) for seed in (1, 2))
    assert one.run_ns != other.run_ns
    assert one.submit_ns != other.submit_ns


def test_the_first_jobs_of_a_seed():
    """Results that name a seed hold only as long as this does not change."""
    workload = generate(Recipe(jobs=1000, machine=128, load=0.7, seed=1))
    rows = zip(workload.submit_ns, workload.run_ns, workload.size, strict=True)
    found = [(submit // NS_PER_S, run // NS_PER_S, size) for submit, run, size in rows]
    assert found[:3] == [(318, 12606, 1), (969, 1565, 4), (2855, 6, 64)]


@pytest.mark.parametrize("load", [0.3, 0.7, 1.2])
def test_the_load_that_was_asked_for(load):
    workload = generate(Recipe(jobs=4000, machine=128, load=load, seed=3))
    assert summarise(workload, workload.submit_ns)["load"] == pytest.approx(load, rel=0.02)


def test_the_shape_of_a_workload():
    workload = generate(Recipe(jobs=4000, machine=128, seed=4))
    serial = sum(size == 1 for size in workload.size) / 4000
    powers = sum(size & (size - 1) == 0 for size in workload.size) / 4000
    by_day = sum(
        6 <= submit // NS_PER_S % 86400 // 3600 < 18 for submit in workload.submit_ns
    )
    assert 0.22 < serial < 0.35
    assert powers > 0.7
    assert by_day / 4000 > 0.6


@pytest.mark.parametrize("wrong", [{"jobs": 0}, {"machine": 0}, {"load": 0}, {"users": 0}])
def test_invalid_recipe_is_refused(wrong):
    with pytest.raises(CoschedError, match="want"):
        Recipe(**{"jobs": 1, "machine": 1, **wrong})
