"""The phases of the paper's rules: changes of the rules, short runs, tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.experiments.nodes import phase_cases, phases
from benchmarks.experiments.nodes.phase_cases import (
    PATIENCE,
    SWEEPS,
    Case,
    Ended,
    by_place,
    carry_out,
    cases_of,
)
from benchmarks.experiments.nodes.phase_claims import claims_of
from benchmarks.experiments.nodes.variants import VARIANTS
from benchmarks.experiments.verdicts import HOLDS, NO
from cosched.core.node.knowledge import Knowledge
from cosched.core.node.settings import Order, Settings
from cosched.core.units import NS_PER_MS, NS_PER_S

SETTINGS = Settings(7_500 * NS_PER_MS, 2 * NS_PER_S, order=Order.PAPER, align=False)
SHORT = Case("nodes", 1, 4 * NS_PER_S, nodes=2)


def test_each_point_has_all_seeds():
    cases = cases_of(SWEEPS, 3, NS_PER_S)
    assert len(set(cases)) == len(cases)
    assert len({case.alike for case in cases}) < len(cases)
    for sweep in SWEEPS:
        places = {case.place for case in cases if case.sweep == sweep}
        assert len([case for case in cases if case.sweep == sweep]) == 3 * len(places)


@pytest.mark.parametrize("change", VARIANTS)
def test_two_nodes_under_each_rule(change):
    found = carry_out(replace(SHORT, change=change)).result
    assert 0.1 < found["efficiency"] <= 1.0
    assert carry_out(replace(SHORT, change=change)).result == found


def test_run_without_agreement_ends_at_its_limit():
    swap = replace(SHORT, nodes=8, gmet_ns=100 * NS_PER_MS, work_ns=2 * NS_PER_S)
    found = carry_out(swap).result
    assert found["efficiency"] < 1 / PATIENCE + 0.05
    assert found["pulled_a_second"] > 1
    assert 0.1 < found["to_the_minority"] < 0.9


def test_drawn_gmet_stays_within_its_spread_for_a_whole_turn():
    class Job:
        key, since_ns = "0.a", 5 * NS_PER_S

    policy = VARIANTS["drawn within 25%"]("1 1")(SETTINGS, Knowledge())
    job, group = Job(), None
    (first,) = policy.protected_until_ns(job, [job], group, 0)
    assert first == policy.protected_until_ns(job, [job], group, NS_PER_S)[0]
    assert 1.5 * NS_PER_S <= first - job.since_ns <= 2.5 * NS_PER_S
    other = VARIANTS["drawn within 25%"]("1 2")(SETTINGS, Knowledge())
    assert first != other.protected_until_ns(job, [job], group, 0)[0]


def test_spread_counts_states():
    assert phases.spread([0.1]) == "10"
    assert phases.spread([]) == ""
    assert phases.spread([0.1, 0.9, 0.85, 0.5]) == "10, 68, 90: 2 / 1"


def test_tables_and_picture(tmp_path):
    cases = cases_of(SWEEPS, 1, NS_PER_S)
    ended = [Ended(case, {"efficiency": 0.9}) for case in cases]
    text = phases.tables(ended)
    assert "| nodes | 500ms | 1s | 2s | 2.5s | 3.5s |" in text
    assert "| 8 | 90 | 90 |" in text
    assert "| restarted, one way | 90 | 90 |" in text
    assert max(map(len, phases.text_of(ended).splitlines())) <= 80
    places = by_place(ended, "timers").items()
    phases.draw({"efficiencies": {"timers": list(places)}}, tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()


def test_command_keeps_runs_and_goes_on(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("<!-- phases: begin -->\n<!-- phases: end -->\n")
    words = ["--sweeps", "timers", "--repeat", "1", "--work", "0.5", "--out", str(tmp_path)]
    phases.main([*words, "--docs", str(page)])
    kept = (tmp_path / "phases.jsonl").read_text()
    assert len(kept.splitlines()) == 5
    phases.main([*words, "--so-far"])
    assert (tmp_path / "phases.jsonl").read_text() == kept
    assert "| timers | 100ms |" in page.read_text()


def ended(efficiency):
    """Results in a world in which a case has the given efficiency."""
    cases = cases_of(("nodes", "slice"), 3, NS_PER_S)
    return [Ended(case, {"efficiency": efficiency(case)}) for case in cases]


def test_claims_hold_in_the_papers_world():
    def as_the_paper_says(case):
        if case.sweep == "slice":
            return 0.9 - case.slice_ns / NS_PER_S / 100
        return {500: 0.3, 3500: 0.8}.get(case.gmet_ns // NS_PER_MS, 0.9)

    found = claims_of(ended(as_the_paper_says), [0.45, 0.45])
    verdicts = {claim.verdict for claim in found if claim.by is not None}
    assert verdicts == {HOLDS, "within 1%"}


def test_kernel_has_an_efficiency_a_seed(monkeypatch):
    monkeypatch.setattr(phase_cases, "KERNEL_WORK_NS", 20 * NS_PER_MS)
    found = phase_cases.kernel_efficiencies(3)
    assert len(set(found)) > 1
    assert all(0.0 < one < 1.0 for one in found)


@pytest.mark.parametrize("efficiency", [0.05, 0.0])
def test_claims_fail_where_nodes_never_agree(efficiency):
    found = claims_of(ended(lambda _case: efficiency), [0.23, 0.25])
    verdicts = [claim.verdict for claim in found if claim.paper]
    assert set(verdicts) == {NO}
    assert all(claim.why for claim in found if claim.paper)
