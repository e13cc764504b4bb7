"""Figures of a schedule, and its columns on disk."""

from __future__ import annotations

import csv
import json
from array import array

import numpy as np
import pytest

from cosched.core.errors import CoschedError
from cosched.core.units import NS_PER_S
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.workload import Estimates, Workload
from cosched.sim.queue.metrics import summarise
from cosched.sim.queue.queue_runs import Schedule, save, simulate
from cosched.sim.queue.report_curves import PIECES, course


def in_seconds(rows, machine=10) -> tuple[Workload, array[int]]:
    """A schedule from (submission, start, run time, size)."""
    workload, starts = Workload("small", machine), array("q")
    for number, (submit, start, run, size) in enumerate(rows):
        workload.append(number, submit * NS_PER_S, run * NS_PER_S, size, run * NS_PER_S)
        starts.append(start * NS_PER_S)
    return workload, starts


def test_the_figures_by_hand():
    rows = [(0, 0, 100, 5), (10, 30, 20, 10), (20, 120, 1, 10), (20, 60, 0, 1)]
    figures = summarise(*in_seconds(rows))
    # Waits are 0, 20, 100 and 40 s.
    assert figures["jobs"] == 4
    assert figures["mean_wait_s"] == 40
    assert figures["median_wait_s"] == 30
    assert figures["max_wait_s"] == 100
    assert figures["p95_wait_s"] == pytest.approx(91)
    assert figures["mean_response_s"] == pytest.approx((100 + 40 + 101 + 40) / 4)
    assert figures["mean_slowdown"] == pytest.approx((1 + 2 + 101) / 3)
    assert figures["mean_bounded_slowdown"] == pytest.approx((1 + 2 + 10.1 + 4) / 4)
    assert figures["median_bounded_slowdown"] == pytest.approx(3)
    assert figures["makespan_s"] == 121
    assert figures["utilisation"] == pytest.approx((500 + 200 + 10) / 1210)
    assert figures["load"] == pytest.approx(710 / 200)


def test_bounded_slowdown_is_never_below_one():
    assert summarise(*in_seconds([(0, 1, 2, 1)]))["mean_bounded_slowdown"] == 1


def test_used_nodes_of_a_large_machine_and_a_long_log():
    # 49,152 nodes for a year: more node-nanoseconds than an int64 can hold.
    year = 365 * 86400
    workload, starts = in_seconds([(0, 0, year, 24_576)] * 2, machine=49_152)
    assert course(workload, starts)["used"] == [1.0] * PIECES


def test_a_schedule_without_extent():
    figures = summarise(*in_seconds([(0, 0, 0, 1)]))
    assert figures["makespan_s"] == figures["utilisation"] == figures["load"] == 0
    assert figures["mean_slowdown"] == 1


@pytest.fixture
def schedule() -> Schedule:
    workload = generate(Recipe(jobs=300, machine=32, load=1.0, seed=9))
    return simulate(workload, "easy", Estimates.LOG, keep_nodes=True)[0]


def test_npz_and_csv_say_the_same(schedule, tmp_path):
    npz, path = save(schedule, tmp_path / "log.1.easy", "cosched sim x", {"jobs": 300})
    assert (npz.name, path.name) == ("log.1.easy.npz", "log.1.easy.csv")
    with path.open() as stream:
        assert stream.readline() == "# cosched sim x\n"
        rows = list(csv.DictReader(stream))
    with np.load(npz) as columns:
        assert str(columns["command"]) == "cosched sim x"
        assert json.loads(str(columns["figures"])) == {"jobs": 300}
        assert set(rows[0]) == set(columns) - {"command", "figures"}
        for name in rows[0]:
            texts = [row[name] for row in rows]
            if name == "nodes":
                assert list(columns[name]) == texts
            else:
                assert list(columns[name]) == [float(text) for text in texts]
    starts = [int(start) // NS_PER_S for start in schedule.start_ns]
    assert [int(row["start_s"]) for row in rows] == starts
    for row in rows:
        assert int(row["wait_s"]) == int(row["start_s"]) - int(row["submit_s"]) >= 0
        assert int(row["end_s"]) == int(row["start_s"]) + int(row["run_s"])


def test_the_same_run_gives_the_same_bytes(schedule, tmp_path):
    again = simulate(schedule.workload, "easy", Estimates.LOG, keep_nodes=True)[0]
    one = save(schedule, tmp_path / "one", "x", {})
    other = save(again, tmp_path / "other", "x", {})
    for first, second in zip(one, other, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_nodes_are_a_column_only_if_they_were_kept(tmp_path):
    workload = generate(Recipe(jobs=5, machine=32))
    schedule = simulate(workload, "easy", Estimates.LOG)[0]
    npz, path = save(schedule, tmp_path / "x", "x", {})
    assert "nodes" not in path.read_text().splitlines()[1]
    with np.load(npz) as columns:
        assert "nodes" not in columns


def test_a_folder_that_is_a_file_is_an_error(schedule, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CoschedError, match="cannot be written"):
        save(schedule, tmp_path / "file" / "x", "x", {})


def test_exact_estimates_are_the_run_times():
    workload = generate(Recipe(jobs=50, machine=32))
    for index in range(50):
        told = workload.job(index, Estimates.EXACT).walltime_ns
        asked = workload.job(index, Estimates.LOG).walltime_ns
        assert (told, asked) == (workload.run_ns[index], workload.walltime_ns[index])


def test_under_two_hundred_bytes_a_job():
    """Measures the memory of a long log and its result."""
    import tracemalloc

    tracemalloc.start()
    try:
        workload = generate(Recipe(jobs=8000, machine=128, load=0.8, seed=2))
        schedule, _ = simulate(workload, "easy", Estimates.LOG)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(schedule.start_ns) == 8000
    assert held / 8000 < 100
