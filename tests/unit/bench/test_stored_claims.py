"""The claims of all papers that docs/results keeps: judged again, they give the pages."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.experiments.claims import NOT_HERE, TUNED, Claim, judged, near
from benchmarks.experiments.overview import __main__ as overview
from benchmarks.experiments.overview.claim_table import PAPERS, counts, table
from benchmarks.experiments.overview.pages import rejudged
from benchmarks.experiments.section import marks
from benchmarks.experiments.stored import FORMAT, Stored, all_claims, keep, read, read_all
from benchmarks.experiments.verdicts import DIRECTION, NO, Near, Order, exact, judge
from cosched.core.errors import CoschedError
from tests.places import ROOT
from tests.unit.bench.refuting import refuting

RESULTS = ROOT / "docs/results"
PARTS = read_all(RESULTS / "claims")
each_part = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)


def judged_claims(part):
    return [claim for claim in part.claims if claim.by is not None]


def test_every_page_of_a_paper_keeps_its_claims():
    pages = {path.name for path in RESULTS.glob("*.md")}
    assert {part.page for part in PARTS} | {"nodes.md"} == set(PAPERS) == pages


@each_part
def test_each_judgement_can_say_no(part):
    for claim in judged_claims(part):
        assert judge(claim.by, refuting(claim.by)) == NO, claim


@each_part
def test_direction_only_is_for_a_value_with_an_effect_or_an_order(part):
    for claim in judged_claims(part):
        if claim.verdict == DIRECTION and not isinstance(claim.by, Order):
            assert isinstance(claim.by, Near), claim
            assert claim.by.no_effect is not None, claim


@each_part
def test_verdicts_of_the_page_are_those_of_the_kept_figures(part):
    page = (RESULTS / part.page).read_text()
    assert rejudged(page, part) == page


def test_the_table_of_all_claims_is_made_from_them():
    begin, end = marks(overview.PART)
    page = (ROOT / "docs/results.md").read_text()
    made = page.partition(begin)[2].partition(end)[0]
    assert made.strip() == overview.text_of(PARTS).strip()


def test_every_no_has_its_reason_in_one_sentence():
    for claim in all_claims(PARTS):
        if claim.verdict in (NO, TUNED, NOT_HERE):
            assert claim.why, claim
            assert ". " not in claim.why.replace("Fig. ", ""), claim


def stored(verdict_page="page.md", **changes):
    one = judged("3a", "wait", "10 min", exact(30), near(10), why="it was tried")
    part = Stored("part", verdict_page, "simulated", "scripts/dev bench x", (one,))
    return msgspec.structs.replace(part, **changes)


def test_kept_claims_come_back(tmp_path):
    keep(tmp_path / "page.md", stored())
    assert read(tmp_path / "claims/part.json") == stored()
    keep(tmp_path / "page.md", stored(format="cosched-claims-0"))
    with pytest.raises(CoschedError, match=f"format cosched-claims-0, not {FORMAT}"):
        read(tmp_path / "claims/part.json")
    (tmp_path / "claims/part.json").write_text("{")
    with pytest.raises(CoschedError, match=r"part\.json: "):
        read(tmp_path / "claims/part.json")


def test_another_verdict_in_a_page_is_replaced():
    row = "| 3a | wait | 10 min | 30.00 | {} |"
    text = "# Page\n\n| Fig. | claim | paper | ours | verdict |\n|---|---|---|---|---|\n"
    page = text + row.format("direction only") + "\n\nafter\n"
    wanted = text + row.format("**no**: it was tried") + "\n\nafter\n"
    assert rejudged(page, stored()) == wanted
    with pytest.raises(CoschedError, match="no table of the 1 claims of part"):
        rejudged(page.replace("30.00", "31.00"), stored())


def test_a_row_of_the_table_has_how_command_and_picture():
    part = stored("tang.md", pictures={"3a": "figures/a.svg"}, otherwise={"3a": "live"})
    assert table([part])[2] == (
        "| [Tang 2011](results/tang.md) | 3a | wait | 10 min | 30.00 | live | "
        "**no**: it was tried | `bench x` | [picture](results/figures/a.svg) |"
    )
    assert counts([part])[2] == "| Tang 2011 | | | | 1 | | | | | | 1 |"


def test_our_own_figures_are_no_claims_of_a_paper():
    own = Claim("1", "our makespan", "", "3 s")
    part = stored("yoo.md", claims=(own,))
    assert all_claims([part]) == []
    assert len(table([part])) == 2


def test_command_needs_kept_claims(tmp_path):
    with pytest.raises(SystemExit, match="has no claims"):
        overview.main(["--results", str(tmp_path)])
