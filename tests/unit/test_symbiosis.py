"""Weinberg and Snavely's own numbers (section 3.3), computed from their Table 4."""

from __future__ import annotations

from statistics import fmean

import pytest

from cosched.core.errors import CoschedError
from cosched.core.symbiosis import (
    DATASTAR,
    Expectation,
    Resource,
    SpeedupMatrix,
    outcomes,
    schedules,
    user_guided,
)

#: Table 3; BTIO (section 3.3) was added as a second I/O code.
LABELS = {
    "HOMME": frozenset({Resource.MEMORY, Resource.NETWORK}),
    "WRF": frozenset({Resource.MEMORY, Resource.NETWORK}),
    "BTIO": frozenset({Resource.IO}),
    "OOCORE": frozenset({Resource.IO}),
    "MILC": frozenset({Resource.CPU, Resource.NETWORK}),
    "PARATEC": frozenset({Resource.CPU, Resource.NETWORK}),
}


def test_what_users_expect_to_slow_down_does():
    slow = outcomes(DATASTAR, LABELS)[Expectation.SLOW]
    assert set(slow) == {
        ("HOMME", "WRF"),
        ("WRF", "HOMME"),
        ("BTIO", "OOCORE"),
        ("OOCORE", "BTIO"),
    }
    assert 1 - fmean(slow.values()) == pytest.approx(0.1625)


def test_users_are_right_about_symbiosis_94_times_of_100():
    symbiotic = outcomes(DATASTAR, LABELS)[Expectation.SYMBIOTIC]
    assert len(symbiotic) == 16
    wrong = [pair for pair, speedup in symbiotic.items() if speedup < 1.0]
    assert wrong == [("WRF", "OOCORE")]
    assert 1 - len(wrong) / len(symbiotic) == pytest.approx(0.94, abs=0.003)


def test_random_user_guided_choice_gains_15_percent():
    found = outcomes(DATASTAR, LABELS)
    chosen = [*found[Expectation.SYMBIOTIC].values(), *found[Expectation.UNKNOWN].values()]
    assert len(chosen) == 26
    assert fmean(chosen) == pytest.approx(1.15, abs=0.001)


def test_best_and_worst_user_guided_schedule():
    assert len(list(schedules(DATASTAR.names))) == 15
    found = {
        frozenset(map(frozenset, schedule)): DATASTAR.throughput(schedule)
        for schedule in user_guided(DATASTAR.names, LABELS)
    }
    assert len(found) == 10
    best, worst = max(found, key=found.get), min(found, key=found.get)
    assert found[best] == pytest.approx(1.223, abs=0.0005)
    assert best == {
        frozenset({"HOMME", "PARATEC"}),
        frozenset({"WRF", "BTIO"}),
        frozenset({"OOCORE", "MILC"}),
    }
    assert found[worst] == pytest.approx(1.07)
    assert worst == {
        frozenset({"HOMME", "OOCORE"}),
        frozenset({"WRF", "PARATEC"}),
        frozenset({"BTIO", "MILC"}),
    }


def test_a_matrix_that_is_none():
    with pytest.raises(CoschedError, match="2 applications needs as many rows"):
        SpeedupMatrix(("a", "b"), ((1.0, 1.0), (1.0,)))
    with pytest.raises(CoschedError, match="'LU' has no row"):
        DATASTAR.speedup("WRF", "LU")
