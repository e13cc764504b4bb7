"""Models of logs: fitted, read back, and made into logs again."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.fit import HOURS, LogModel, fit, fit_weibull, generate_like, model_of
from cosched.sim.logs.log_models import CTC, MODELS, SDSC
from cosched.sim.logs.workload import Workload
from cosched.sim.queue.metrics import summarise

HOUR_NS = 3600 * NS_PER_S


def log_of(rows, machine=64):
    workload = Workload("log", machine)
    for number, (submit_ns, run_ns, size) in enumerate(rows):
        workload.append(number, submit_ns, run_ns, size, run_ns)
    return workload


@pytest.mark.parametrize(("shape", "scale"), [(0.41, 2200.0), (1.0, 10.0), (3.0, 1e6)])
def test_the_parameters_of_a_weibull_distribution_come_back(shape, scale):
    chance = Random(1)
    values = np.array([chance.weibullvariate(scale, shape) for _ in range(20_000)])
    found_shape, found_scale = fit_weibull(values, "values")
    assert found_shape == pytest.approx(shape, rel=0.02)
    assert found_scale == pytest.approx(scale, rel=0.05)


def test_the_fit_has_the_greatest_likelihood():
    chance = Random(2)
    values = np.array([chance.lognormvariate(5, 2) for _ in range(500)])

    def likelihood(shape, scale):
        ratio = values / scale
        return float(
            np.sum(np.log(shape / scale) + (shape - 1) * np.log(ratio) - ratio**shape)
        )

    shape, scale = fit_weibull(values, "values")
    best = likelihood(shape, scale)
    for factor in (0.99, 1.01):
        assert likelihood(shape * factor, scale) < best
        assert likelihood(shape, scale * factor) < best


def test_a_model_comes_back_from_a_log_of_it():
    log = generate_like(SDSC, 40_000, seed=3)
    again = fit(log, "again")
    assert again.machine == SDSC.machine
    assert again.per_hour == pytest.approx(SDSC.per_hour, rel=0.1)
    assert again.sizes == pytest.approx(SDSC.sizes, abs=0.01)
    # Run times are whole seconds of at least one in logs, which hides the least of them.
    assert again.shape == pytest.approx(SDSC.shape, rel=0.1)
    assert again.scale_s == pytest.approx(SDSC.scale_s, rel=0.1)


def test_the_load_of_a_model_is_that_of_its_logs():
    loads = [
        summarise(log, log.submit_ns)["load"]
        for log in (generate_like(SDSC, 20_000, seed) for seed in range(5))
    ]
    assert float(np.mean(loads)) == pytest.approx(SDSC.load, rel=0.1)


def test_hours_and_sizes_are_counted():
    rows = [(hour * HOUR_NS, (1 + hour % 3) * NS_PER_S, 1) for hour in range(48)]
    rows += [(48 * HOUR_NS, NS_PER_S, size) for size in (3, 6, 23, 64)]
    model = fit(log_of(rows), "log", begins_s=18 * 3600 + 60)
    assert model.per_hour[18] == pytest.approx((2 + 4) / 2)
    assert model.per_hour[17] == pytest.approx(1.0)
    # 3 is nearest to 4 by ratio, 6 to 8, 23 to 32.
    assert model.sizes == pytest.approx([48 / 52, 0, 1 / 52, 1 / 52, 0, 1 / 52, 1 / 52])


def test_rare_sizes_are_left_out():
    rows = [(n * HOUR_NS, (1 + n % 5) * NS_PER_S, 2) for n in range(300)]
    rows += [(300 * HOUR_NS, NS_PER_S, 64)] * 2
    assert fit(log_of(rows), "log").sizes == (0.0, 1.0)


@given(
    machine=st.integers(1, 300), jobs=st.integers(1, 30), seed=st.integers(0, 2**40),
    name=st.sampled_from(sorted(MODELS)),
)  # fmt: skip
@settings(deadline=None, max_examples=50)
def test_every_log_of_a_model_is_sound(machine, jobs, seed, name):
    log = generate_like(MODELS[name], jobs, seed, machine)
    assert len(log) == jobs
    assert log.machine == machine
    assert all(one <= other for one, other in pairwise(log.submit_ns))
    assert all(1 <= size <= machine and size & (size - 1) == 0 for size in log.size)
    assert all(run_ns >= NS_PER_S for run_ns in log.run_ns)
    assert generate_like(MODELS[name], jobs, seed, machine) == log


def test_the_first_jobs_of_a_seed():
    """Results that name a seed hold only as long as this does not change."""
    log = generate_like(SDSC, 3, seed=1)
    rows = zip(log.submit_ns, log.run_ns, log.size, strict=True)
    assert [(at // NS_PER_S, run // NS_PER_S, size) for at, run, size in rows] == [
        (657, 875, 1),
        (1990, 2512, 32),
        (5581, 8, 16),
    ]


def test_hours_without_arrivals_are_skipped():
    quiet = replace(SDSC, per_hour=(0.0,) * 23 + (5.0,))
    log = generate_like(quiet, 50, seed=1)
    assert {at_ns // HOUR_NS % HOURS for at_ns in log.submit_ns} == {23}


@pytest.mark.parametrize("model", [SDSC, CTC], ids=lambda model: model.name)
def test_a_model_survives_json(model):
    assert model_of(json.loads(json.dumps(model.document())), "file") == model


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"per_hour": (1.0,) * 23}, "want 24 rates"),
        ({"per_hour": (0.0,) * 24}, "want 24 rates"),
        ({"sizes": (0.5, 0.4)}, "do not sum to 1"),
        ({"machine": 32}, "do not fit on 32 nodes"),
        ({"shape": 0.0}, "shape and scale above 0"),
    ],
)
def test_invalid_models_are_refused(change, words):
    with pytest.raises(CoschedError, match=words):
        replace(SDSC, **change)


@pytest.mark.parametrize("document", [{}, [], "text", {"name": "x", "machine": "many"}])
def test_documents_without_model_are_refused(document):
    with pytest.raises(CoschedError, match="file: not a model"):
        model_of(document, "file")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "all jobs come at once"),
        ([(0, NS_PER_S, 1)] * 3, "all jobs come at once"),
        ([(n * HOUR_NS, NS_PER_S, 1) for n in range(9)], "run times are all alike"),
    ],
)
def test_logs_that_cannot_be_fitted(rows, words):
    with pytest.raises(CoschedError, match=words):
        fit(log_of(rows), "log")


def test_model_larger_than_machine_is_refused():
    large = LogModel("large", 8, (1.0,) * 24, (0.0, 0.0, 1.0), 0.5, 100.0)
    with pytest.raises(CoschedError, match="no jobs that fit on 2 nodes"):
        generate_like(large, 5, 0, machine=2)
