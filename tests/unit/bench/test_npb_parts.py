"""The parts of the NAS benchmarks that need no MPI."""

from __future__ import annotations

import json
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.npb import cg, dt, kernels, mg
from benchmarks.npb.classes import CG, DT, IS
from benchmarks.npb.fluid import cell, lu, multipartition
from benchmarks.npb.graphs import GRAPHS
from benchmarks.npb.random import MODULUS, MULTIPLIER, SEED, leap
from benchmarks.npb.report import Check, Outcome, Run, Traffic, as_json, as_text
from cosched.core.errors import CoschedError

some_ranks = st.integers(1, 40)
powers = st.integers(0, 6).map(lambda log: 1 << log)


@given(st.integers(0, 300), st.integers(0, 300))
def test_leap_equals_many_steps(first, more):
    state = SEED
    for _ in range(first):
        state = state * MULTIPLIER % MODULUS
    assert leap(SEED, first) == state
    assert leap(leap(SEED, first), more) == leap(SEED, first + more)


def test_kernels_draw_the_same_numbers(tmp_path):
    built = kernels.load("ft", tmp_path)
    numbers = np.empty(100)
    built.lib.npb_ft_draw(SEED, len(numbers), built.doubles(numbers))
    assert numbers.tolist() == [leap(SEED, n) / MODULUS for n in range(1, 101)]


def test_transform_equals_numpy_ifft(tmp_path):
    built = kernels.load("ft", tmp_path)
    random = np.random.default_rng(1)
    for outer, length, inner in ((3, 64, 1), (2, 32, 20), (1, 512, 16)):
        grid = random.random((outer, length, inner)) + 1j * random.random(
            (outer, length, inner)
        )
        expected = np.fft.ifft(grid, axis=1) * length
        roots = np.exp(2j * np.pi * np.arange(length // 2) / length)
        built.lib.npb_ft_transform(
            outer, length, inner, built.doubles(roots), built.doubles(grid)
        )
        np.testing.assert_allclose(grid, expected, rtol=1e-12)


def test_pointer_of_wrong_type_is_refused(tmp_path):
    built = kernels.load("ep", tmp_path)
    with pytest.raises(TypeError, match="float32"):
        built.doubles(np.zeros(2, np.float32))


def test_missing_or_failing_compiler_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", str(tmp_path / "nocc"))
    with pytest.raises(CoschedError, match=r"no C compiler .*nocc: .*; set CC$"):
        kernels.load("ep", tmp_path)
    monkeypatch.setenv("CC", "cc -include /no/such.h")
    with pytest.raises(CoschedError, match=r"cannot build the NPB kernels: .*/no/such\.h"):
        kernels.load("ep", tmp_path)
    assert not list(tmp_path.rglob("*.so"))
    assert not list(tmp_path.rglob("build-*"))


def test_unwritable_cache_is_an_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(CoschedError, match="set XDG_CACHE_HOME"):
        kernels.load("ep", blocked)


def test_keys_move_as_published():
    assert [IS["S"].test_rank(0, n) for n in (1, 2, 10)] == [1, 2, 10]
    assert [IS["S"].test_rank(4, n) for n in (1, 10)] == [65462, 65453]
    assert [IS["W"].test_rank(0, n) for n in (1, 2, 3)] == [1248, 1249, 1250]
    assert [IS["A"].test_rank(3, n) for n in (1, 2)] == [8288932, 8288931]
    assert [IS["B"].test_rank(0, n) for n in (1, 2)] == [33422936, 33422935]


@given(some_ranks)
def test_every_cell_has_one_owner_and_every_stage_all_ranks(ranks):
    sides = multipartition.sides(ranks)
    owned = [multipartition.cells(rank, ranks) for rank in range(ranks)]
    places = sorted(place for cells in owned for place in cells)
    assert places == sorted(np.ndindex(*sides))
    for axis in range(3):
        for stage in range(sides[axis]):
            at = [sum(place[axis] == stage for place in cells) for cells in owned]
            assert len(set(at)) == 1, f"axis {axis}, stage {stage}: {at}"


@given(some_ranks, st.integers(0, 2), st.sampled_from([1, -1]))
def test_all_cells_have_the_same_neighbour(ranks, axis, step):
    side = multipartition.sides(ranks)[axis]
    for rank in range(ranks):
        peer = multipartition.neighbour(rank, ranks, axis, step)
        theirs = multipartition.cells(peer, ranks)
        for place in multipartition.cells(rank, ranks):
            there = list(place)
            there[axis] = (there[axis] + step) % side
            assert tuple(there) in theirs
        assert multipartition.neighbour(peer, ranks, axis, -step) == rank


@given(st.integers(1, 200), st.integers(1, 20))
def test_shares_cover_a_line(edge, side):
    shares = [cell.share(edge, place, side) for place in range(side)]
    assert [first for first, _ in shares] == [
        sum(count for _, count in shares[:place]) for place in range(side)
    ]
    counts = [count for _, count in shares]
    assert sum(counts) == edge
    assert max(counts) - min(counts) <= 1


@given(st.integers(1, 200))
def test_columns_of_lu_are_wide_rather_than_deep(ranks):
    wide, deep = lu.columns(ranks)
    assert wide * deep == ranks
    assert wide >= deep


@given(powers, st.sampled_from([1400, 7000, 75000, 97]))
def test_blocks_of_cg_cover_the_matrix_and_shares_meet_columns(ranks, order):
    places = [cg.place(rank, ranks, order) for rank in range(ranks)]
    assert sum(len(p.rows) * len(p.columns) for p in places) == order**2
    for rank, place in enumerate(places):
        # The rows from across the diagonal are this rank's columns.
        across = places[place.across]
        assert place.across < ranks
        assert across.across == rank
        assert across.rows[across.share] == place.columns
        for partner in place.partners:
            assert places[partner].rows == place.rows


def test_cg_refuses_ranks_that_do_not_fit():
    with pytest.raises(CoschedError, match="power of two"):
        cg.place(0, 6, 1400)
    with pytest.raises(CoschedError, match="too many"):
        cg.place(0, 1 << 14, 100)


@given(powers, st.integers(5, 8))
def test_levels_of_mg_hold_every_point_once(ranks, log_edge):
    views = [mg.levels(rank, ranks, log_edge) for rank in range(ranks)]
    for level in range(1, log_edge + 1):
        points = [np.prod([e - 2 for e in view[level].edges]) for view in views]
        assert sum(points) == 8**level
        for rank, view in enumerate(views):
            here = view[level]
            for axis in range(3):
                if not here.empty:
                    assert views[here.up[axis]][level].down[axis] == rank
                    assert not views[here.up[axis]][level].empty


@given(powers, st.integers(5, 8))
def test_ranks_of_mg_receive_the_faces_of_others(ranks, log_edge):
    views = [mg.levels(rank, ranks, log_edge) for rank in range(ranks)]
    for level in range(2, log_edge + 1):
        for axis in range(3):
            for view in views:
                here = view[level]
                if here.gives[axis]:
                    for end in (here.up[axis], here.down[axis]):
                        assert views[end][level].takes[axis]


#: The nodes of each graph, from NASA's README of DT.
NODES = {
    "S": {"BH": 5, "WH": 5, "SH": 12},
    "W": {"BH": 11, "WH": 11, "SH": 32},
    "A": {"BH": 21, "WH": 21, "SH": 80},
    "B": {"BH": 43, "WH": 43, "SH": 192},
}


@pytest.mark.parametrize("problem", NODES)
def test_graphs_of_dt_are_as_published_and_in_order(problem):
    width = DT[problem].sources
    for name, count in NODES[problem].items():
        graph = GRAPHS[name](width)
        assert len(graph) == count
        assert sum(not node.tails for node in graph) == (1 if name == "WH" else width)
        assert sum(not node.heads for node in graph) == (1 if name == "BH" else width)
        for number, node in enumerate(graph):
            assert max(node.tails, default=-1) < number
            for tail in node.tails:
                assert number in graph[tail].heads
            assert len(node.tails) <= 4


@pytest.mark.parametrize("problem", NODES)
def test_sources_of_dt_are_near_the_mean_and_differ(problem):
    size = DT[problem]
    found = [dt.samples_of(size, source) for source in range(size.sources)]
    assert max(abs(samples - size.samples) for samples in found) <= size.deviation
    assert len(set(found)) > size.sources // 2


def test_number_of_samples_wraps_as_in_c():
    """Without that, source 15 of class A would make 110,592 + 307 samples."""
    assert dt.samples_of(DT["A"], 15) == 110592 - 307


def test_resampling_keeps_the_ends_and_the_sum_inside(tmp_path):
    built = kernels.load("dt", tmp_path)
    feature, stretched = np.arange(1.0, 9.0), np.empty(20)
    built.lib.npb_dt_resample(8, built.doubles(feature), 20, built.doubles(stretched))
    assert (stretched[0], stretched[-1]) == (1.0, 8.0)
    assert stretched[1:-1].sum() == pytest.approx(feature[1:-1].sum())


SENT = Traffic(9634.0, 37966880.0, 5.0, 96.0)


def outcome(*checks):
    return Outcome("12 x 12 x 12 points", 300, 2.5, 5e9, checks)


def test_value_that_is_not_a_number_fails():
    assert Check("x", 1.0 + 1e-9, 1.0, 1e-8).passed
    assert not Check("x", 1.0 + 1e-7, 1.0, 1e-8).passed
    assert not Check("x", nan, 1.0, 1e-8).passed
    assert not Check("x", complex(1.0, nan), 1.0 + 0j, 1e-8).passed


def test_report_names_the_differences():
    good, bad = Check("norm", 1.0, 1.0, 0.0), Check("zeta", 2.5, 1.0, 1e-8)
    text = as_text(Run("lu", "W", 2, outcome(good, bad), SENT))
    assert "FAILED: 1 value not as published" in text
    assert "zeta: 2.5, not 1" in text
    assert "9,634 a rank, 3,941 bytes on average" in text
    assert "norm" not in text
    text = as_text(Run("lu", "W", 1, outcome(good), Traffic(0.0, 0.0, 5.0, 96.0)))
    assert "successful: 1 value as published" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_json_has_the_fields_for_scripts():
    good, bad = Check("norm", 1.0, 1.0, 0.0), Check("zeta", 2.5, 1.0, 1e-8)
    found = json.loads(json.dumps(as_json(Run("lu", "W", 2, outcome(good, bad), SENT))))
    assert found["mops"] == 2000.0
    assert found["verified"] is False
    assert found["failed"] == ["zeta"]
    assert found["message_bytes_per_rank"] == 37966880.0


def test_matrix_is_symmetric(tmp_path):
    built = kernels.load("cg", tmp_path)
    size = CG["S"]
    starts, columns, elements = cg._matrix(built, size, cg.place(0, 1, size.order))
    dense = np.zeros((size.order, size.order))
    for row in range(size.order):
        part = slice(starts[row], starts[row + 1])
        dense[row, columns[part]] = elements[part]
    np.testing.assert_allclose(dense, dense.T, rtol=1e-12)
    assert (np.diag(dense) > 0.1 - size.shift).all()
