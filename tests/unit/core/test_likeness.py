"""Which earlier runs predict the length of a job."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cosched.core.expectation import (
    ENOUGH_KINDS,
    LENGTHS_MAX,
    Likeness,
    PastRun,
    expect,
)

JOB = Likeness("/opt/lu", ("-n", "8"), 4)


def run(length_ns, program="/opt/lu", args=("-n", "8"), ranks=4):
    return PastRun(Likeness(program, args, ranks), length_ns)


def other(number, ranks=4):
    return run(100 + number, args=("-n", str(100 + number)), ranks=ranks)


def test_same_program_arguments_and_ranks_predict_best():
    runs = [run(7), *map(other, range(9)), run(9), run(1, program="/opt/cg")]
    assert expect(JOB, runs).lengths_ns == (7, 9)


def test_only_the_last_runs_count():
    assert expect(JOB, map(run, range(1, 20))).lengths_ns == tuple(
        range(20 - LENGTHS_MAX, 20)
    )


def test_other_arguments_predict_if_there_are_enough_of_them():
    runs = [other(number) for number in range(ENOUGH_KINDS)]
    assert expect(JOB, runs).lengths_ns == (100, 101, 102)
    assert expect(JOB, runs[1:]).lengths_ns == ()
    assert expect(JOB, [runs[0]] * 9).lengths_ns == (), "one set of arguments"


def test_same_ranks_come_before_other_ranks():
    same = [other(number) for number in range(ENOUGH_KINDS)]
    different = [other(number, ranks=2) for number in range(20, 20 + ENOUGH_KINDS)]
    assert expect(JOB, different).lengths_ns == (120, 121, 122)
    assert expect(JOB, [*same, *different]).lengths_ns == (100, 101, 102)


def test_each_set_of_arguments_counts_once_with_its_last_run():
    runs = [other(0), other(1), other(2), run(999, args=("-n", "100"))]
    assert expect(JOB, runs).lengths_ns == (101, 102, 999)


def test_another_program_predicts_nothing():
    expected = expect(JOB, [run(5, program="/opt/cg")] * 9)
    assert expected.lengths_ns == ()
    assert expected.kind == JOB.kind, "the node may learn from jobs that end there"


WORDS = st.text(st.characters(exclude_characters="\0"), max_size=5)


@given(WORDS, st.lists(WORDS, max_size=3), st.none() | st.integers(1, 9))
def test_kind_is_a_number_that_differs_with_each_part(program, args, ranks):
    kind = Likeness(program, tuple(args), ranks).kind
    assert 0 < kind < 2**64
    assert kind != Likeness(program + "x", tuple(args), ranks).kind
    assert kind != Likeness(program, (*args, "x"), ranks).kind
    assert kind != Likeness(program, tuple(args), 10).kind


def test_kind_takes_names_that_are_not_utf8():
    assert Likeness("/opt/\udcff", (), 1).kind > 0
