"""The error of expected lengths, over the jobs that ended."""

from __future__ import annotations

import dataclasses

from cosched.core.trace.history import JobRecord
from cosched.core.trace.predictions import Predictions

RECORD = JobRecord(
    node="n",
    job="0.a",
    name="a",
    uid=0,
    ranks=(0,),
    world=1,
    carrier="none",
    began_wall_ns=0,
    ended_wall_ns=1,
    partial=False,
    response_s=9.0,
    scheduled_s=4.0,
    unscheduled_s=5.0,
    suspended_s=0.0,
    released_s=0.0,
    cpu_s=None,
    switches=1,
    granted=0,
    trapped=0,
    sent=0,
    received=0,
    waited_s=0.0,
)


def counted(*changes):
    found = Predictions()
    for change in changes:
        found.add(dataclasses.replace(RECORD, **change))
    return found


def test_errors_of_early_and_late_jobs_add_up():
    found = counted({"expected_s": 5.0}, {"expected_s": 1.0})
    assert found == Predictions(known=2, met=1, error_s=4.0, scheduled_s=8.0)


def test_unknown_jobs_are_counted_apart():
    assert counted({}) == Predictions(unknown=1)


def test_incomplete_records_do_not_count():
    incomplete = ({"partial": True}, {"released_s": 1.0}, {"scheduled_s": 0.0})
    assert counted(*({"expected_s": 5.0, **one} for one in incomplete)) == Predictions()
