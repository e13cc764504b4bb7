"""The nice value of a job's user, beside one that moved the job."""

from __future__ import annotations

import pytest

from cosched.cluster.engines.slurm.commands import _one_line
from cosched.cluster.engines.slurm.jobs import (
    Number,
    SlurmJob,
    moved_line,
    own_nice,
    shown_nice,
)


@pytest.mark.parametrize(
    ("shown", "nice"),
    [
        (None, 0),
        (100, 100),
        (-5, -5),
        (2**32 - 5, -5),
        (2**31 - 3, 2**31 - 3),
        (Number(set=True, number=7), 7),
    ],
)
def test_nice_value_as_slurm_prints_it(shown, nice):
    assert shown_nice(SlurmJob(7, nice=shown)) == nice
    assert own_nice(SlurmJob(7, nice=shown)) == nice


@pytest.mark.parametrize(("own", "moved"), [(100, 95), (3, -2), (0, -5), (-5, -10)])
def test_value_of_the_user_is_read_from_the_line(own, moved):
    line = moved_line(own, moved)
    assert _one_line(line) == line
    for shown in (moved, moved % 2**32):
        assert own_nice(SlurmJob(7, nice=shown, admin_comment=line)) == own
    assert own_nice(SlurmJob(7, nice=moved + 1, admin_comment=line)) == moved + 1


@pytest.mark.parametrize(
    "line",
    [
        None,
        "",
        "saved",
        "cosched: mates b=8@b1",
        "cosched: b refuses its group: moved forward from nice value 900 to 0",
        "cosched: moved forward from nice value 900 to 0, says b",
        "cosched: moved forward from nice value 9" + "0" * 5000 + " to 0",
    ],
)
def test_other_line_tells_nothing(line):
    assert own_nice(SlurmJob(7, admin_comment=line)) == 0
