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

from benchmarks.experiments.claims import TUNED
from benchmarks.experiments.hold_yield import __main__ as experiment
from benchmarks.experiments.hold_yield import cases
from benchmarks.experiments.hold_yield.claims import HOLDS, YIELDS, claims_of
from benchmarks.experiments.hold_yield.means import Means, mean_of
from benchmarks.experiments.stored import read
from benchmarks.experiments.verdicts import NO, UNDECIDED
from benchmarks.results import Results


class Bars:
    """The experiment's table."""

    def __init__(self, rows):
        self.rows = rows
        self._by = {
            (row["sweep"], row["x"], row["schemes"], row["machine"]): row for row in rows
        }

    def bars(self, sweep, machine, column, xs=None, schemes=cases.COMBINATIONS):
        """The sum of the bars of these values and schemes; the same without pairs."""
        values = {"load": cases.LOADS, "share": cases.SHARES}[sweep]
        cells = list(itertools.product(xs or values, schemes))
        base = sum(self._by[sweep, x, cases.BASE, machine][column] for x, _ in cells)
        return sum(self._by[sweep, x, how, machine][column] for x, how in cells), base


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hold_yield")
    experiment.main([*WORDS, "--out", str(folder)])
    return folder


@pytest.fixture(scope="module")
def means(folder):
    return Bars(json.loads((folder / "hold_yield.json").read_text())["means"])


WORDS = ["--repeat", "3", "--jobs-generated", "250", "--load", "0.7"]


def ended_in(folder, words):
    """The runs of a folder."""
    chosen = experiment.cases_of(experiment.parse([*words, "--out", str(folder)]))
    kept = Results(folder / "hold_yield.jsonl")
    return [cases.Ended(case, kept.last(case)) for case in kept.done(chosen)]


def test_pictures_and_text(folder):
    for name in ("hold_yield_by_load.png", "hold_yield_by_share.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert (folder / "hold_yield.txt").read_text().endswith("; 0 jobs never did\n")


def test_every_pair_starts_together_and_only_holding_loses(means):
    for row in means.rows:
        if row["schemes"] == cases.BASE:
            assert row["groups"] == 0 or row["mean_sync_s"] == 0
            continue
        assert row["together"] == row["groups"] > 0
        holds = row["schemes"] in HOLDS[row["machine"]]
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


@pytest.mark.parametrize("machine", cases.NAMES)
def test_fig_5_sync_time_grows_with_the_load(means, machine):
    low, _ = means.bars("load", machine, "mean_sync_s", xs=[0.25])
    high, _ = means.bars("load", machine, "mean_sync_s", xs=[0.75])
    assert high > 1.2 * low


@pytest.mark.parametrize("sweep", ["load", "share"])
def test_figs_5_and_9_mates_of_holding_jobs_start_sooner(means, sweep):
    holding = yielding = 0.0
    for machine in cases.NAMES:
        holding += means.bars(sweep, machine, "mean_sync_s", None, HOLDS[machine])[0]
        yielding += means.bars(sweep, machine, "mean_sync_s", None, YIELDS[machine])[0]
    assert holding < yielding


def test_fig_6_loss_grows_with_the_load_of_the_other_machine(means):
    losses = [
        means.bars("load", "compute", "lost_share", [x], HOLDS["compute"])[0]
        for x in cases.LOADS
    ]
    assert losses == sorted(losses)
    assert losses[-1] > 2 * losses[0]


def test_figs_7_and_8_more_pairs_more_wait_and_slowdown(means):
    for column in ("mean_wait_s", "mean_slowdown"):
        few, _ = means.bars("share", "analysis", column, xs=[0.025, 0.05])
        many, _ = means.bars("share", "analysis", column, xs=[0.2, 0.33])
        assert many > 1.2 * few


def test_fig_7_with_a_third_paired_holding_costs_more_than_yielding(means):
    holding, _ = means.bars("share", "analysis", "mean_wait_s", [0.33], HOLDS["analysis"])
    yielding, _ = means.bars("share", "analysis", "mean_wait_s", [0.33], YIELDS["analysis"])
    assert holding > yielding


@pytest.mark.parametrize("machine", cases.NAMES)
def test_fig_10_loss_grows_with_the_pairs(means, machine):
    losses = [
        means.bars("share", machine, "lost_share", [x], HOLDS[machine])[0]
        for x in cases.SHARES
    ]
    assert losses[-1] > 1.5 * losses[0]
    assert sum(losses[3:]) > sum(losses[:2])


def test_an_interrupted_experiment_continues(folder, tmp_path):
    lines = (folder / "hold_yield.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == 3 * (8 * 5 + 1)
    kept = tmp_path / "hold_yield.jsonl"
    kept.write_text("".join(lines[:-1]) + lines[-1][:50])
    experiment.main([*WORDS, "--out", str(tmp_path)])
    again = json.loads(kept.read_text().splitlines()[-1])
    last = json.loads(lines[-1])
    assert again["run"] == last["run"]
    assert again["result"]["domains"] == last["result"]["domains"]
    assert kept.read_text().startswith("".join(lines[:-1]))


def test_claims_are_judged_and_written_into_a_page(folder, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- hold_yield: begin -->\n<!-- hold_yield: end -->\n")
    experiment.main([*WORDS, "--so-far", "--out", str(folder), "--docs", str(page)])
    claims = claims_of(Means(ended_in(folder, WORDS)))
    assert {claim.source.rstrip("ab") for claim in claims} == {
        "V.B", *(str(number) for number in range(3, 11))
    }  # fmt: skip
    together, deadlock = [claim for claim in claims if claim.source == "V.B"]
    assert together.verdict == "holds"
    assert (deadlock.ours, deadlock.verdict) == ("1 of 3", NO)  # of so few jobs
    for claim in claims:
        assert f"| {claim.ours} | {claim.shown} |" in page.read_text()
    kept = read(page.parent / "claims/hold_yield.json")
    assert list(kept.claims) == claims


def test_a_single_run_decides_nothing(folder):
    one = [each for each in ended_in(folder, WORDS) if each.run.repeat == 0]
    verdicts = {claim.verdict for claim in claims_of(Means(one)) if claim.source != "V.B"}
    assert verdicts == {UNDECIDED, TUNED}


def test_means_of_equal_runs_are_certain_and_of_one_run_are_not():
    assert mean_of([3.0, 3.0]).low == mean_of([3.0, 3.0]).high == 3.0
    assert not mean_of([3.0]).repeated
    wide = mean_of([1.0, 2.0, 3.0])
    assert 1.0 <= wide.low < wide.middle == 2.0 < wide.high <= 3.0


def test_at_most_a_tenth_of_the_jobs_are_paired_by_load():
    shares = []
    for x in cases.LOADS:
        case = cases.Case("load", x, "HH", 0, None, 0.7, 1000, None)
        compute = cases.compute_workload(case)
        pairs = cases.pairs_of(case, [compute, cases.analysis_workload(case, compute)])
        assert len({mates[0] for mates in pairs}) == len(pairs)
        shares.append(len(pairs) / len(compute))
    assert 0.03 < shares[0] < shares[1] <= shares[2] == 0.1
