"""The table of orders that adapt (docs/results/nodes.md), with mixes that run quickly."""

from __future__ import annotations

import pytest

from benchmarks.sim.adapting import MIXES, Mix, again, compare, table


@pytest.mark.parametrize(
    "title", ["three of 5.5", "4, 6, 2, 5, 3, 2", "1.6, 1.6, 3.5, 3.5, 3, 0.2, 2.1"]
)
def test_nodes_converge_to_the_best_fixed_slice(title: str) -> None:
    mix = next(mix for mix in MIXES if mix.title == title)
    row = compare(mix)
    assert row.best_s <= row.usual_s
    assert row.rest_seen_s <= 1.05 * row.best_s
    assert row.age_seen_s <= 1.05 * row.best_s
    assert row.rest_unseen_s <= 1.5 * row.best_s
    assert row.age_unseen_s <= 1.5 * row.best_s


def test_next_pass_starts_after_the_last_end() -> None:
    mix = Mix("two", (1.0, 2.0), (0.0, 3.0))
    assert again(mix) == Mix("two", (1.0, 2.0, 1.0, 2.0), (0.0, 3.0, 400.0, 403.0))


def test_table_has_a_line_for_each_mix() -> None:
    row = compare(Mix("one of 1", (1.0,), (0.0,)))
    assert table([row])[2].startswith("| one of 1 | 1.0 | 1.0 (")
