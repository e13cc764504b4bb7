"""The search of cosched tune on made-up response surfaces."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosched.bench.tune.search import (
    KERNEL,
    Advice,
    Grid,
    Setting,
    Verdict,
    advise,
    contenders,
    most_left,
    next_round,
)
from cosched.core.node.settings import Span

MS = 10**6
SLICES = tuple(Span(ms * MS) for ms in (250, 500, 1000, 2000, 4000))
GMETS = tuple(Span(ms * MS) for ms in (10, 50, 100, 200, 500))


def point(slice_ms, gmet_ms, variant="proportional"):
    return Setting(variant, Span(slice_ms * MS), Span(gmet_ms * MS))


DEFAULT = point(2000, 100)
GRID = Grid(("proportional",), SLICES, GMETS, DEFAULT)


def search(surface, grid=GRID, repeats=3, noise=lambda _one, _n: 1.0):
    """Runs the whole search; returns the responses and their order."""
    observed, order = {}, []
    while batch := next_round(grid, observed, repeats):
        assert len(batch) == len(set(batch))
        for one in batch:
            n = len(observed.setdefault(one, []))
            observed[one].append(surface(one) * noise(one, n))
            order.append(one)
        assert len(order) < 1000, "the search does not end"
    return observed, order


def valley(best, kernel=30.0, depth=10.0):
    """A smooth surface with its least value at ``best``, steep in both logarithms."""

    def surface(one):
        if one == KERNEL:
            return kernel
        away = math.log2(one.slice.ns / best.slice.ns) ** 2
        away += (math.log2(one.gmet.ns / best.gmet.ns) / 2) ** 2
        return depth * (1 + 0.2 * away)

    return surface


@pytest.mark.parametrize("best", GRID.points(), ids=str)
def test_search_finds_the_valley(best):
    observed, _ = search(valley(best))
    advice = advise(GRID, observed)
    at_best = valley(best)
    assert at_best(advice.best) <= at_best(best) * 1.03
    assert advice.to_kernel == pytest.approx(at_best(advice.best) / 30)


def test_points_among_worse_points_are_not_tried():
    observed, order = search(valley(point(250, 10)))
    far = point(4000, 200)
    assert far in GRID.points()
    assert far not in observed
    everything = 3 * (len(GRID.points()) + 1)
    assert len(order) < everything / 2


def test_better_points_run_more_often():
    best = point(500, 50)
    observed, _ = search(valley(best))
    counts = {one: len(values) for one, values in observed.items()}
    assert counts[best] == counts[KERNEL] == counts[DEFAULT] == 3
    worst = max(
        (one for one in observed if one not in (KERNEL, DEFAULT)),
        key=valley(best),
    )
    assert counts[worst] == 1
    assert 3 in counts.values()
    assert 2 in counts.values()


def test_flat_surface_keeps_the_default():
    observed, _ = search(lambda one: 20.0 if one == KERNEL else 10.0)
    advice = advise(GRID, observed)
    assert advice == Advice(Verdict.DEFAULT, DEFAULT, 0.5, 1.0)


def test_best_kernel_is_reported():
    observed, _ = search(lambda one: 10.0 if one == KERNEL else 10.2)
    advice = advise(GRID, observed)
    assert advice.verdict is Verdict.KERNEL
    assert advice.to_kernel == pytest.approx(1.02)


def test_failed_setting_is_not_tried_again():
    broken = point(250, 10)
    surface = valley(broken)
    observed, _ = search(lambda one: math.inf if one == broken else surface(one))
    assert observed[broken] == [math.inf]
    advice = advise(GRID, observed)
    assert advice.best != broken
    assert advice.best in GRID.points()


def test_no_advice_if_all_runs_fail():
    observed, order = search(lambda _one: math.inf)
    assert advise(GRID, observed) == Advice(Verdict.NOTHING)
    assert len(order) == len(set(order))


def test_unknown_kernel_response_gives_no_ratio():
    observed, _ = search(lambda one: math.inf if one == KERNEL else valley(DEFAULT)(one))
    advice = advise(GRID, observed)
    assert (advice.verdict, advice.to_kernel) == (Verdict.DEFAULT, None)
    assert len(observed[DEFAULT]) == 3
    assert observed[KERNEL] == [math.inf]


def test_variants_are_separate_grids():
    grid = Grid(("proportional", "strict"), SLICES, GMETS, DEFAULT)
    surface = valley(point(1000, 100, "x"))

    def two(one):
        return surface(one) * (2.0 if one != KERNEL and one.variant == "strict" else 1.0)

    observed, _ = search(two, grid)
    assert advise(grid, observed).best == point(1000, 100)
    tried = [one for one in observed if one != KERNEL and one.variant == "strict"]
    assert set(tried) <= set(grid.scouts())


def test_gmet_not_below_slice_is_not_a_point():
    assert all(one.gmet.ns < one.slice.ns for one in GRID.points())
    assert point(250, 500) not in GRID.points()


def test_default_outside_the_grid_is_tried():
    odd = point(3000, 70)
    grid = Grid(("proportional",), SLICES, GMETS, odd)
    observed, _ = search(valley(DEFAULT), grid)
    assert len(observed[odd]) == 3


responses = st.floats(1, 100)


SMALL = Grid(("proportional",), SLICES[1:], GMETS[::2], DEFAULT)


@given(st.data(), st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_forecast_of_all_runs_never_grows(data, repeats):
    check_forecasts(data, SMALL, repeats)


@given(st.data(), st.integers(1, 4))
@settings(max_examples=8, deadline=None)
def test_forecast_on_a_larger_grid_never_grows(data, repeats):
    """The time of a search grows with the square of its points, so these are few."""
    check_forecasts(data, GRID, repeats)


def check_forecasts(data, grid, repeats):
    """Each run has a response of its own, or fails."""
    observed, forecasts, made = {}, [], 0
    while batch := next_round(grid, observed, repeats):
        for place, one in enumerate(batch):
            left = most_left(grid, observed, repeats, batch[place:])
            assert left[: len(batch) - place] == batch[place:]
            forecasts.append(made + len(left))
            values = observed.setdefault(one, [])
            values.append(data.draw(responses | st.just(math.inf)))
            made += 1
    forecasts.append(made)
    assert forecasts == sorted(forecasts, reverse=True)
    assert most_left(grid, observed, repeats, []) == []
    assert all(len(values) <= repeats for values in observed.values())
    able = [k for k, v in observed.items() if k != KERNEL and math.inf not in v]
    assert (advise(grid, observed).verdict is Verdict.NOTHING) == (not able)


@pytest.mark.parametrize("kernel", [1.0, 100.0])
def test_forecast_is_right_from_the_start_if_no_point_is_worse(kernel):
    observed, order = search(lambda one: kernel if one == KERNEL else 10.0)
    first = next_round(GRID, {}, 3)
    assert len(most_left(GRID, {}, 3, first)) == len(order)
    assert set(GRID.points()) <= set(observed)


def test_failed_contender_leaves_its_place_empty():
    """No other setting takes its place: the number of runs would grow."""
    observed = {
        Setting("proportional", turn, GMETS[0]): [float(n), float(n)]
        for n, turn in enumerate(SLICES, 1)
    }
    best = min(observed)
    observed[best] = [1.0, math.inf]
    assert len(contenders(GRID, observed, 2)) == 3
    assert best in contenders(GRID, observed, 2)
    assert best not in contenders(GRID, observed, 3)


def test_each_round_halves_the_contenders():
    observed = {
        Setting("proportional", turn, GMETS[0]): [float(n)] * 3
        for n, turn in enumerate(SLICES, 1)
    }
    assert [len(contenders(GRID, observed, n)) for n in (1, 2, 3)] == [5, 3, 2]
