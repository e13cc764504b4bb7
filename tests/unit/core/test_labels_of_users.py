"""Labels that were wrong lose their effect."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.symbiosis.labels import (
    KEPT_NS,
    PROGRAMS_MOST,
    USERS_PART,
    WRONG_PROGRAMS,
    WRONG_RUNS,
    LabelRecord,
)
from cosched.core.symbiosis.limited import Found
from cosched.core.symbiosis.resources import Resource

CPU, MEMORY = frozenset({Resource.CPU}), frozenset({Resource.MEMORY})
ANNA = 1001


def found(limits):
    return Found(limits, "computing", 90)


def record(runs, label=CPU, program="7", uid=ANNA, wrong_runs=WRONG_RUNS):
    kept = LabelRecord(wrong_runs)
    for number, limits in enumerate(runs):
        kept.add(uid, program, label, found(limits), number)
    return kept


def test_label_counts_until_it_was_wrong_in_enough_runs():
    assert LabelRecord().effective(ANNA, "7", CPU) == CPU
    assert record([MEMORY] * (WRONG_RUNS - 1)).effective(ANNA, "7", CPU) == CPU
    assert record([MEMORY] * WRONG_RUNS).effective(ANNA, "7", CPU) == MEMORY


def test_right_run_gives_the_label_its_effect_back():
    assert record([MEMORY] * WRONG_RUNS + [CPU]).effective(ANNA, "7", CPU) == CPU


def test_open_run_changes_nothing():
    runs = [MEMORY] * WRONG_RUNS + [CPU | MEMORY]
    kept = record(runs)
    assert kept.of(ANNA, "7").wrong == WRONG_RUNS
    assert kept.of(ANNA, "7").runs == WRONG_RUNS + 1


def test_another_label_begins_again():
    kept = record([MEMORY] * WRONG_RUNS)
    assert kept.effective(ANNA, "7", MEMORY) == MEMORY
    assert kept.effective(ANNA, "8", CPU) == CPU


def test_user_with_many_wrong_labels_is_not_believed_for_new_programs():
    kept = LabelRecord()
    for kind in range(1, WRONG_PROGRAMS + 1):
        for _ in range(WRONG_RUNS):
            kept.add(ANNA, str(kind), CPU, found(MEMORY), 1)
    assert kept.effective(ANNA, 99, CPU) == frozenset()
    assert kept.effective(ANNA + 1, 99, CPU) == CPU
    kept.add(ANNA, 99, CPU, found(CPU), 1)
    assert kept.effective(ANNA, 99, CPU) == CPU


def test_wrong_runs_of_all_programs_of_a_user_count_together():
    kept = LabelRecord()
    for program in ("7", "8"):
        kept.add(ANNA, program, CPU, found(MEMORY), 1)
    assert [kept.effective(ANNA, each, CPU) for each in ("7", "8")] == [CPU, CPU]
    kept.add(ANNA, "8", CPU, found(MEMORY), 2)
    assert kept.is_distrusted(ANNA)
    assert [kept.effective(ANNA, each, CPU) for each in ("7", "8")] == [MEMORY, MEMORY]
    # A program that was not judged yet, and another user.
    assert kept.effective(ANNA, "9", CPU) == CPU
    assert kept.effective(ANNA + 1, "7", CPU) == CPU


def test_right_runs_end_the_distrust():
    kept = LabelRecord()
    for program in ("7", "8", "8"):
        kept.add(ANNA, program, CPU, found(MEMORY), 1)
    kept.add(ANNA, "8", CPU, found(CPU), 2)
    assert not kept.is_distrusted(ANNA)
    assert [kept.effective(ANNA, each, CPU) for each in ("7", "8")] == [CPU, CPU]


def test_right_labels_of_a_distrusted_user_count():
    kept = record([MEMORY] * WRONG_RUNS)
    kept.add(ANNA, "8", CPU, found(CPU), 1)
    assert kept.is_distrusted(ANNA)
    assert kept.effective(ANNA, "8", CPU) == CPU


def test_each_label_counts_if_that_is_off():
    assert record([MEMORY] * 9, wrong_runs=0).effective(ANNA, "7", CPU) == CPU


def test_unknown_program_has_the_label_of_its_user():
    assert record([MEMORY] * WRONG_RUNS, program="").effective(ANNA, "", CPU) == CPU


def test_record_goes_on_after_a_restart():
    before = record([MEMORY] * WRONG_RUNS)
    after = LabelRecord(kept=before.all())
    assert after.all() == before.all()
    assert after.effective(ANNA, "7", CPU) == MEMORY


def test_what_was_not_seen_for_long_is_forgotten():
    kept = record([CPU])
    _, forgotten = kept.add(ANNA, "8", CPU, found(CPU), KEPT_NS + 1)
    assert [each.program for each in forgotten] == ["7"]
    assert kept.of(ANNA, "7") is None


def test_one_user_has_a_part_of_the_room():
    most = PROGRAMS_MOST // USERS_PART
    (one,) = record([CPU]).all()
    kept = LabelRecord(
        kept=[replace(one, program=str(at), seen_ns=at) for at in range(1, most + 1)]
    )
    _, forgotten = kept.add(ANNA, most + 1, CPU, found(CPU), most + 1)
    assert [each.program for each in forgotten] == ["1"]
    assert len(kept.all()) == most


@pytest.mark.parametrize("limits", [frozenset(), MEMORY])
def test_found_limits_are_those_of_the_last_run(limits):
    assert record([CPU, limits]).of(ANNA, "7").found == limits


@given(st.lists(st.sampled_from([CPU, MEMORY, CPU | MEMORY, frozenset()]), max_size=30))
def test_counts_add_up(runs):
    kept = record(runs).of(ANNA, "7")
    if not runs:
        assert kept is None
        return
    assert kept.runs == len(runs)
    assert kept.right == sum(limits == CPU for limits in runs)
    assert 0 <= kept.wrong <= sum(limits == MEMORY for limits in runs)
