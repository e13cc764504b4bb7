"""The cost of wrong labels, for their users and for others."""

import pytest

from benchmarks.sim.wrong_labels import ARMS, HONEST, figures, rows_of


def test_right_labels_gain_most_and_are_compared_with_themselves():
    found = figures(1, 120, "split", 12)
    assert set(found) == set(ARMS)
    assert found[HONEST].liars is None
    assert found[HONEST].gain > found["liars, each label counts"].gain
    rows = {row[0]: row for row in rows_of([found])}
    assert rows[HONEST][2] == "100%"
    assert rows[HONEST][4:] == ("", "")
    assert float(rows["liars"][4]) > 0


@pytest.mark.parametrize("queue", [12, 300])
def test_learned_labels_keep_more_of_the_gain(queue):
    found = [figures(seed, 300, "split", queue) for seed in range(3)]
    kept, lost = (
        sum(each[name].gain for each in found)
        for name in ("liars", "liars, each label counts")
    )
    assert kept > lost
