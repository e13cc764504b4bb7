"""Weinberg and Snavely's own numbers (section 3.3), computed from their Table 4."""

from __future__ import annotations

import json
from statistics import fmean

import pytest

from cosched.core.cluster.queue.halves.learner import Learner
from cosched.core.errors import CoschedError
from cosched.core.symbiosis.resources import Expectation, Resource
from cosched.sim.symbiotic.datastar import DATASTAR, NPB
from cosched.sim.symbiotic.matrix import (
    Model,
    SpeedupMatrix,
    model_document,
    parse_model,
)
from cosched.sim.symbiotic.pairings import (
    assess,
    outcomes,
    schedules,
    throughput,
    user_guided,
)
from cosched.sim.symbiotic.rounds import check_labels, error, experiment

MEMORY, IO = frozenset({Resource.MEMORY}), frozenset({Resource.IO})
FOUND = assess(DATASTAR)


def as_sets(schedule):
    return frozenset(map(frozenset, schedule))


def test_jobs_slow_down_as_users_expect():
    slow = outcomes(DATASTAR)[Expectation.SLOW]
    assert set(slow) == {
        ("HOMME", "WRF"),
        ("WRF", "HOMME"),
        ("BTIO", "OOCORE"),
        ("OOCORE", "BTIO"),
    }
    assert 1 - fmean(slow.values()) == pytest.approx(0.1625)
    assert 1 - FOUND.slow_mean == pytest.approx(0.1625)


def test_users_are_right_about_symbiosis_94_times_of_100():
    symbiotic = outcomes(DATASTAR)[Expectation.SYMBIOTIC]
    wrong = [pair for pair, speedup in symbiotic.items() if speedup < 1.0]
    assert wrong == [("WRF", "OOCORE")]
    assert (FOUND.symbiotic, FOUND.symbiotic_right) == (16, 15)
    assert FOUND.symbiotic_right / FOUND.symbiotic == pytest.approx(0.94, abs=0.003)


def test_random_user_guided_choice_gains_15_percent():
    found = outcomes(DATASTAR)
    chosen = [*found[Expectation.SYMBIOTIC].values(), *found[Expectation.UNKNOWN].values()]
    assert len(chosen) == 26
    assert FOUND.random == pytest.approx(fmean(chosen))
    assert FOUND.random == pytest.approx(1.15, abs=0.001)


def test_best_and_worst_user_guided_schedule():
    assert len(list(schedules(DATASTAR.matrix.names))) == 15
    assert len(list(user_guided(DATASTAR.matrix.names, DATASTAR.labels))) == 10
    assert FOUND.best_throughput == pytest.approx(1.223, abs=0.0005)
    assert as_sets(FOUND.best) == as_sets(
        [("HOMME", "PARATEC"), ("WRF", "BTIO"), ("OOCORE", "MILC")]
    )
    assert FOUND.worst_throughput == pytest.approx(1.07)
    assert as_sets(FOUND.worst) == as_sets(
        [("HOMME", "OOCORE"), ("WRF", "PARATEC"), ("BTIO", "MILC")]
    )


def test_application_alone_on_twice_the_nodes_gains():
    for model in (DATASTAR, NPB):
        assert min(model.matrix.idle) >= 1.0
    assert min(DATASTAR.matrix.idle) == 1.18


def test_users_without_knowledge_would_gain_less():
    assert FOUND.blind_mean < FOUND.guided_mean < FOUND.best_throughput


def test_experiment_finds_best_schedule_without_loss():
    ran = experiment(DATASTAR, 12)
    gains = [one.throughput for one in ran]
    assert min(gains) >= FOUND.worst_throughput - 1e-12
    assert gains[5:] == [FOUND.best_throughput] * 7
    assert experiment(DATASTAR, 3) == ran[:3]


def test_learner_error_falls_with_each_new_schedule():
    ran = experiment(DATASTAR, 12)
    errors = [error(Learner(DATASTAR.labels), DATASTAR.matrix), *(one.error for one in ran)]
    assert errors == sorted(errors, reverse=True)
    # Pairs with a warning are never tried: HOMME beside WRF, BTIO beside OOCORE.
    warned = [
        abs(Learner(DATASTAR.labels).priors.slow - DATASTAR.matrix.speedup(*pair))
        for pair in outcomes(DATASTAR)[Expectation.SLOW]
    ]
    assert errors[5:] == pytest.approx([sum(warned) / 30] * 8)
    assert errors[5] < errors[0] / 4


def test_a_learner_without_labels_learns_everything():
    """No label warns, so even the worst schedules are tried."""
    nothing = {name: frozenset({Resource.CPU}) for name in DATASTAR.matrix.names}
    ran = experiment(DATASTAR, 12, nothing)
    assert ran[-1].error == 0.0
    assert ran[-1].throughput == FOUND.best_throughput
    assert min(one.throughput for one in ran) < FOUND.worst_throughput
    # The learner finds limits of OOCORE and WRF that no label has.
    assert experiment(DATASTAR, 1, nothing)[0].refuted <= ran[-1].refuted


def test_learner_accepts_noisy_counters():
    def too_much(primary, background):
        return DATASTAR.matrix.speedup(primary, background) + 0.25

    assert experiment(DATASTAR, 12, observe=too_much)[-1].error == pytest.approx(
        0.25 * 26 / 30 + experiment(DATASTAR, 12)[-1].error
    )


def test_labels_beside_measurements():
    checks = {check.application: check for check in check_labels(DATASTAR)}
    # HOMME's memory label: beside WRF, which is limited by memory too, it still gains.
    assert checks["HOMME"].verdict == "not seen"
    assert {name for name, check in checks.items() if check.verdict != "confirmed"} == {
        "HOMME"
    }
    assert checks["OOCORE"].found == IO
    assert (checks["WRF"].right, checks["WRF"].wrong) == (4, 1)


def test_wrong_label_is_refuted():
    honest = DATASTAR.labels
    names = DATASTAR.matrix.names
    # OOCORE's user says memory: it is BTIO, a user of I/O, that slows it down.
    lie = tuple(MEMORY if name == "OOCORE" else honest[name] for name in names)
    check = next(
        check
        for check in check_labels(Model(DATASTAR.matrix, lie))
        if check.application == "OOCORE"
    )
    assert check.verdict == "more found"
    assert check.found == IO
    assert (check.right, check.wrong) == (2, 3)


def test_learner_prefers_observations_to_labels():
    learner = Learner(DATASTAR.labels)
    assert learner.estimate("WRF", "HOMME") == learner.priors.slow
    assert learner.estimate("WRF", "MILC") == learner.priors.symbiotic
    assert learner.estimate("MILC", "WRF") == learner.priors.unknown
    assert learner.estimate("MILC", "MILC") == 1.0
    assert {check.verdict for check in learner.check()} == {"unknown", "confirmed"}
    for speedup in (0.5, 0.7):
        learner.observe("WRF", "HOMME", speedup)
    assert learner.estimate("WRF", "HOMME") == pytest.approx(0.6)
    with pytest.raises(CoschedError, match="'WRF': a speedup of 0 was observed"):
        learner.observe("WRF", "HOMME", 0.0)


def test_invalid_matrix_is_refused():
    with pytest.raises(CoschedError, match="2 applications needs that many rows"):
        SpeedupMatrix(("a", "b"), ((1.0, 1.0), (1.0,)), (1.0, 1.0))
    with pytest.raises(CoschedError, match="'b': a speedup of nan"):
        SpeedupMatrix(("a", "b"), ((1.0, 1.0), (float("nan"), 1.0)), (1.0, 1.0))
    with pytest.raises(CoschedError, match="'LU' has no row"):
        DATASTAR.matrix.speedup("WRF", "LU")


def test_odd_number_leaves_one_application_alone():
    three = SpeedupMatrix(
        tuple("abc"), ((1.0, 1.2, 0.8), (1.0, 1.0, 0.9), (0.7, 1.1, 1.0)), (1.5, 1.4, 1.3)
    )
    assert {as_sets(schedule) for schedule in schedules("abc")} == {
        as_sets([("a", "b"), ("c", None)]),
        as_sets([("a", "c"), ("b", None)]),
        as_sets([("b", "c"), ("a", None)]),
    }
    assert len(list(schedules("abcde"))) == 15
    found = assess(Model(three, (MEMORY, IO, IO)))
    assert as_sets(found.best) == as_sets([("a", "b"), ("c", None)])
    assert found.best_throughput == pytest.approx((1.2 + 1.0 + 1.3) / 3)
    assert found.worst_throughput == pytest.approx((0.8 + 0.7 + 1.4) / 3)
    ran = experiment(Model(three, (MEMORY, IO, IO)), 5)
    assert [one.throughput for one in ran[2:]] == [found.best_throughput] * 3


def test_labels_that_warn_of_everything():
    two = SpeedupMatrix(tuple("ab"), ((1.0,) * 2,) * 2, (1.0,) * 2)
    with pytest.raises(CoschedError, match="the labels warn of every schedule"):
        assess(Model(two, (IO, IO)))
    assert throughput(two, (("a", "b"),)) == 1.0


@pytest.mark.parametrize("model", [DATASTAR, NPB], ids=["datastar", "npb"])
def test_a_model_survives_json(model):
    again = parse_model(json.loads(json.dumps(model_document(model))), "file")
    assert again == model


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda apps: apps.clear(), "has no object 'applications'"),
        (lambda apps: apps["a"].pop("idle"), "m.json: a.idle: None is not a number"),
        (lambda apps: apps["a"].update(idle=True), "a.idle: True is not a number"),
        (lambda apps: apps["a"].update(idle=-1), "application 'a': a speedup of -1"),
        (lambda apps: apps["a"]["beside"].pop("b"), "a.beside: want a speedup for each"),
        (
            lambda apps: apps["a"].update(limits=["disk"]),
            "'disk' is not one of cpu, memory",
        ),
        (lambda apps: apps["a"].update(limits=[]), "a.limits: want a list of one or more"),
        (lambda apps: apps.update(a=3), "a.beside: want a speedup"),
    ],
)
def test_invalid_model_is_refused(change, words):
    apps = {
        name: {"limits": ["io"], "idle": 1.1, "beside": {"a": 1, "b": 0.9}} for name in "ab"
    }
    change(apps)
    with pytest.raises(CoschedError) as caught:
        parse_model({"applications": apps}, "m.json")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
