"""Figures 3 to 10 of Tang et al. (IPDPS 2011) on small generated machines: the orderings
that the paper claims, and that docs/results/tang.md says hold at full size, too.

Of one small workload a single pair of bars says little, so bars are summed where the claim
is about all of them. The workloads are the same in every run.
"""

from __future__ import annotations

import itertools
import json

import pytest

pytest.importorskip("matplotlib")

from benchmarks.experiments.hold_yield import experiment as hold_yield

HOLD_OF = {"compute": ("HH", "HY"), "analysis": ("HH", "YH")}
YIELD_OF = {"compute": ("YH", "YY"), "analysis": ("HY", "YY")}


class Means:
    """The experiment's table."""

    def __init__(self, rows):
        self.rows = rows
        self._by = {
            (row["sweep"], row["x"], row["schemes"], row["machine"]): row for row in rows
        }

    def bars(self, sweep, machine, column, xs=None, schemes=hold_yield.COMBINATIONS):
        """The sum of the bars of these values and schemes; the same without pairs."""
        values = {"load": hold_yield.LOADS, "share": hold_yield.SHARES}[sweep]
        cells = list(itertools.product(xs or values, schemes))
        base = sum(self._by[sweep, x, hold_yield.BASE, machine][column] for x, _ in cells)
        return sum(self._by[sweep, x, how, machine][column] for x, how in cells), base


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hold_yield")
    words = ["--repeat", "3", "--jobs-generated", "500", "--load", "0.7"]
    hold_yield.main([*words, "--out", str(folder)])
    return folder


@pytest.fixture(scope="module")
def means(folder):
    return Means(json.loads((folder / "hold_yield.json").read_text())["means"])


def test_pictures_and_text(folder):
    for name in ("hold_yield_by_load.png", "hold_yield_by_share.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert (folder / "hold_yield.txt").read_text().endswith("; 0 jobs never did\n")


def test_every_pair_starts_together_and_only_holding_loses(means):
    for row in means.rows:
        if row["schemes"] == hold_yield.BASE:
            assert row["groups"] == 0 or row["mean_sync_s"] == 0
            continue
        assert row["together"] == row["groups"] > 0
        holds = row["schemes"] in HOLD_OF[row["machine"]]
        assert (row["lost_node_h"] > 0) == holds


def test_fig_3_pairs_wait_and_at_low_load_hardly(means):
    for sweep in ("load", "share"):
        paired, base = means.bars(sweep, "analysis", "mean_wait_s")
        assert paired > 1.05 * base
    low, base = means.bars("load", "compute", "mean_wait_s", xs=[0.25])
    assert abs(low / base - 1.0) < 0.1


def test_fig_4_slowdown_follows(means):
    low, base = means.bars("load", "compute", "mean_slowdown", xs=[0.25])
    assert abs(low / base - 1.0) < 0.15
    paired, base = means.bars("share", "analysis", "mean_slowdown")
    assert paired > 1.05 * base


@pytest.mark.parametrize("machine", hold_yield.NAMES)
def test_fig_5_sync_time_grows_with_the_load(means, machine):
    low, _ = means.bars("load", machine, "mean_sync_s", xs=[0.25])
    high, _ = means.bars("load", machine, "mean_sync_s", xs=[0.75])
    assert high > 1.2 * low


@pytest.mark.parametrize("sweep", ["load", "share"])
def test_figs_5_and_9_mates_of_holding_jobs_start_sooner(means, sweep):
    holding = yielding = 0.0
    for machine in hold_yield.NAMES:
        holding += means.bars(sweep, machine, "mean_sync_s", None, HOLD_OF[machine])[0]
        yielding += means.bars(sweep, machine, "mean_sync_s", None, YIELD_OF[machine])[0]
    assert holding < yielding


def test_fig_6_loss_grows_with_the_load_of_the_other_machine(means):
    losses = [
        means.bars("load", "compute", "lost_share", [x], HOLD_OF["compute"])[0]
        for x in hold_yield.LOADS
    ]
    assert losses == sorted(losses)
    assert losses[-1] > 2 * losses[0]


def test_figs_7_and_8_more_pairs_more_wait_and_slowdown(means):
    for column in ("mean_wait_s", "mean_slowdown"):
        few, _ = means.bars("share", "analysis", column, xs=[0.025, 0.05])
        many, _ = means.bars("share", "analysis", column, xs=[0.2, 0.33])
        assert many > 1.2 * few


def test_fig_7_with_a_third_paired_holding_costs_more_than_yielding(means):
    holding, _ = means.bars("share", "analysis", "mean_wait_s", [0.33], HOLD_OF["analysis"])
    yielding, _ = means.bars(
        "share", "analysis", "mean_wait_s", [0.33], YIELD_OF["analysis"]
    )
    assert holding > yielding


@pytest.mark.parametrize("machine", hold_yield.NAMES)
def test_fig_10_loss_grows_with_the_pairs(means, machine):
    losses = [
        means.bars("share", machine, "lost_share", [x], HOLD_OF[machine])[0]
        for x in hold_yield.SHARES
    ]
    assert losses[-1] > 2 * losses[0]
    assert sum(losses[3:]) > sum(losses[:2])
