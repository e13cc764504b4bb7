"""The error of expected lengths, over the jobs that ended."""

from __future__ import annotations

from cosched.core.trace.expectation_counts import ExpectationCounts
from tests.unit.core.test_history import record


def counted(*changes):
    found = ExpectationCounts()
    for change in changes:
        found.add(record(**{"scheduled_s": 4.0, **change}))
    return found


def test_errors_of_early_and_late_jobs_add_up():
    found = counted({"expected_s": 5.0}, {"expected_s": 1.0})
    assert found == ExpectationCounts(known=2, met=1, error_s=4.0, scheduled_s=8.0)


def test_unknown_jobs_are_counted_apart():
    assert counted({}) == ExpectationCounts(unknown=1)


def test_incomplete_records_do_not_count():
    incomplete = ({"partial": True}, {"released_s": 1.0}, {"scheduled_s": 0.0})
    assert (
        counted(*({"expected_s": 5.0, **one} for one in incomplete)) == ExpectationCounts()
    )
