"""The rule for jobs that share: found from simulated logs."""

from benchmarks.sim.sharing_rule import PARTS, PLACEMENTS, gains, rule_of


def of(*values):
    return {("labels", part): value for part, value in zip(PARTS, values, strict=True)}


def test_rule_is_the_largest_part_that_harms_no_log():
    good, bad = of(1.1, 1.1, 1.1, 1.0), of(0.8, 0.99, 1.05, 1.2)
    assert rule_of([good], "labels") == "all"
    assert rule_of([good, bad], "labels") == "1/4"
    assert rule_of([of(0.9, 0.9, 0.9, 0.97)], "labels") is None


def test_large_jobs_that_keep_whole_nodes_change_the_response():
    found = gains(32, 0.75, 1, 150)
    assert set(found) == {(name, part) for name in PLACEMENTS for part in PARTS}
    assert found["labels", "all"] != found["labels", "1/16"]
