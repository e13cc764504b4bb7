"""The rule for jobs that share: found from simulated logs."""

import pytest

from benchmarks.sim.sharing_rule import (
    PARTS,
    PLACEMENTS,
    LogFigures,
    figures,
    rule_of,
)


def of(*values):
    gains = {("labels", part): value for part, value in zip(PARTS, values, strict=True)}
    return LogFigures(gains, {key: [value] for key, value in gains.items()}, 0.0)


def test_rule_is_the_largest_part_that_harms_no_log():
    good, bad = of(1.1, 1.1, 1.1, 1.0), of(0.8, 0.99, 1.05, 1.2)
    parts = list(PARTS)
    assert rule_of([good], "labels", parts) == "all"
    assert rule_of([good, bad], "labels", parts) == "1/4"
    assert rule_of([of(0.9, 0.9, 0.9, 0.97)], "labels", parts) is None


def test_large_jobs_that_keep_whole_nodes_change_the_response():
    found = figures(32, 0.75, 1, 150, 2, ["all", "1/16"])
    assert set(found.gains) == {(p, part) for p in PLACEMENTS for part in ("all", "1/16")}
    assert found.gains["labels", "all"] != found.gains["labels", "1/16"]
    # The draws differ, and the gain is that of their means.
    drawn = found.drawn["labels", "all"]
    assert len(drawn) == 2
    assert drawn[0] != drawn[1]
    assert min(drawn) <= found.gains["labels", "all"] <= max(drawn)
    assert found.spread > 0


def test_first_draw_is_the_log_itself():
    one = figures(32, 0.75, 1, 60, 1, ["all"])
    assert one.spread == 0
    assert one.drawn["labels", "all"] == pytest.approx([one.gains["labels", "all"]])
