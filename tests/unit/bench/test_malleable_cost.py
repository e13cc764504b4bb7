"""The figures of the costs of changes: pure, from what a domain has recorded."""

import pytest

from benchmarks.experiments.malleable.malleable_cost import HEAD, Point, Round, show
from benchmarks.experiments.malleable.measured_job import PHASES, change_of
from cosched.core.errors import CoschedError


def recorded(began_ms, **phases):
    """Returns a change as a domain answers about it; it took 200 ms."""
    return {
        "ordered_ns": began_ms * 10**6,
        "ended_ns": (began_ms + 200) * 10**6,
        "stood_s": 0.08,
        "phases": {
            **dict.fromkeys((f"{each}_s" for each in PHASES), 0.0),
            **{f"{name}_s": ms / 1e3 for name, ms in phases.items()},
            "moved_bytes": 7,
        },
        "refused": "",
    }


def test_changes_in_a_row_are_one():
    change = change_of([recorded(0, spawn=50, move=30), recorded(300, move=40)])
    assert change.phases == {**dict.fromkeys(PHASES, 0), "spawn": 50, "move": 70}
    assert (change.stood, change.all, change.moved_bytes) == (160, 500, 14)
    assert change.rest == pytest.approx(380)


def test_refused_change_is_an_error():
    refused = {**recorded(0), "phases": None, "refused": "node n7 has no slots"}
    with pytest.raises(CoschedError, match="node n7 has no slots"):
        change_of([refused])


def test_ratios_are_those_of_a_round():
    """The second round is twice as slow in all."""
    point = Point("MPICH 5", "c", 2, 1)
    rounds = [
        Round(point, {"1 to 2": one}, {"1 to 2": mpiexec}, {"1 to 2": restart}, None)
        for one, mpiexec, restart in (
            (change_of([recorded(0, spawn=50)]), 100, 300),
            (change_of([recorded(0), recorded(200)]), 200, 600),
        )
    ]
    head, _, row = (
        [cell.strip() for cell in line.split("|")[1:-1]] for line in show(rounds)
    )
    cells = dict(zip(head, row, strict=True))
    assert tuple(head) == HEAD
    assert (cells["nodes"], cells["change"], cells["spawn"]) == ("2", "1 to 2", "25")
    assert (cells["all"], cells["mpiexec"]) == ("300 (250-350)", "150")
    assert cells["all/mpiexec"] == "2.00 (2.00-2.00)"
    assert cells["stood/mpiexec"] == "0.80 (0.80-0.80)"
    assert cells["restart/all"] == "1.50 (1.50-1.50)"
