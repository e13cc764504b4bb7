"""The record of programs beside each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.symbiosis.program_pairs import (
    HARM_KEPT_NS,
    KEPT_NS,
    NOTHING,
    RUNS_MOST,
    TOTAL_MOST,
    USERS_PART,
    Pair,
    PairRecord,
    PairRun,
)

PAIR = Pair("7.lu", "7.stream")


def run(job, slowdown=1.2, at_least=0.0, pair=PAIR, uid=7, seen_ns=0):
    return PairRun(job, 1, uid, pair, slowdown, at_least, seen_ns)


def test_mean_speed_of_runs():
    record = PairRecord()
    assert record.known(PAIR, 1.1) == NOTHING
    record.add(run(1, 1.25))
    record.add(run(2, 2.0))
    known = record.known(PAIR, 1.1)
    assert known.speed == pytest.approx((0.8 + 0.5) / 2)
    assert known.runs == 2
    assert record.pairs() == [PAIR]
    assert record.known(Pair(*reversed(PAIR)), 1.1) == NOTHING


def test_later_state_of_a_run_replaces_the_earlier_one():
    record = PairRecord()
    record.add(run(1, 1.5))
    assert record.add(run(1, 1.25)) == []
    assert record.known(PAIR, 1.1)[:2] == (0.8, 1)


def test_last_run_decides_about_harm():
    record = PairRecord([run(1, 1.5, 1.2, seen_ns=5)])
    assert record.known(PAIR, 1.1).harmful_until_ns == 5 + HARM_KEPT_NS
    assert record.known(PAIR, 1.3).harmful_until_ns == 0
    assert record.known(PAIR, 0.0).harmful_until_ns == 0
    record.add(run(2, 1.05, 1.0, seen_ns=6))
    assert record.known(PAIR, 1.1).harmful_until_ns == 0


def test_old_runs_are_forgotten():
    record = PairRecord([run(1, seen_ns=0), run(2, seen_ns=9)])
    assert [each.job for each in record.forget(KEPT_NS + 1)] == [1]
    assert record.known(PAIR, 1.1).runs == 1
    assert [each.job for each in record.forget(KEPT_NS + 10)] == [2]
    assert record.pairs() == []


def test_pair_keeps_its_last_runs():
    record = PairRecord()
    forgotten = [each for job in range(RUNS_MOST + 2) for each in record.add(run(job))]
    assert [each.job for each in forgotten] == [0, 1]


def test_user_cannot_drive_out_the_runs_of_others():
    record = PairRecord([run(1)])
    most = TOTAL_MOST // USERS_PART
    for job in range(2, most + 10):
        for gone in record.add(run(job, pair=Pair(f"8.{job}", "8.a"), uid=8)):
            assert gone.uid == 8
    assert record.known(PAIR, 1.1).runs == 1


def test_whole_record_is_bounded():
    kept = [run(job, pair=Pair(f"{job}.a", "b"), uid=job) for job in range(TOTAL_MOST)]
    record = PairRecord(kept)
    assert [each.job for each in record.add(run(TOTAL_MOST + 1))] == [0]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 6), st.sampled_from("ab"), st.floats(0.5, 4.0), st.integers(0, 9)
        ),
        max_size=40,
    )
)
def test_restart_keeps_what_is_known(steps):
    record, stored = PairRecord(), {}
    for at, (job, beside, slowdown, harm) in enumerate(steps):
        pair = Pair(f"7.{job}", beside)
        new = run(job, slowdown, harm / 4, pair, seen_ns=at)
        stored[new.key] = new
        for gone in record.add(new):
            del stored[gone.key]
    again = PairRecord(reversed(stored.values()))
    for pair in record.pairs():
        assert again.known(pair, 1.1) == record.known(pair, 1.1)
