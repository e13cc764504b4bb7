"""Short storms of faults over groups of jobs (``tests/domain/pair_storm.py``)."""

from __future__ import annotations

import pytest

from tests.domain import pair_storm


@pytest.mark.long
@pytest.mark.parametrize(("schemes", "seed"), [("HH", 1), ("YHY", 2)])
def test_no_group_is_broken_by_faults(tmp_path, schemes, seed):
    report = pair_storm.run(tmp_path, pairs=12, faults=24, schemes=schemes, seed=seed)
    assert report.problems == []
    assert len(report.apart_s) == 12
    assert report.faults.total() == 24
