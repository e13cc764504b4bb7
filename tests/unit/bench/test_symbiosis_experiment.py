"""The symbiosis experiment in small: its files, and docs/results/weinberg.md's claims."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("matplotlib")

from benchmarks.experiments.section import replaced
from benchmarks.experiments.symbiosis import __main__ as symbiosis
from benchmarks.experiments.symbiosis.claims import claims
from benchmarks.experiments.symbiosis.report import ON_MACHINE
from benchmarks.experiments.verdicts import NO, UNDECIDED
from cosched.core.errors import CoschedError
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import write_swf
from tests.places import ROOT

COMPUTED = ("table3", "table4", "learner", "stream")
PAGE = ROOT / "docs/results/weinberg.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("symbiosis")
    page = folder / "page.md"
    page.write_text("a\n<!-- symbiosis: begin -->\nstale\n<!-- symbiosis: end -->\nb\n")
    words = [*COMPUTED, "--streams", "4", "--out", str(folder), "--docs", str(page)]
    symbiosis.main(words)
    return folder


@pytest.fixture(scope="module")
def documents(made):
    return symbiosis.kept(made)


@pytest.mark.parametrize("part", COMPUTED)
def test_every_part_has_its_pictures_and_its_text(part, made, documents):
    assert (made / f"symbiosis_{part}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (made / f"symbiosis_{part}.svg").read_text()
    text = (made / f"symbiosis_{part}.txt").read_text()
    assert text.startswith(documents[part]["text"])
    assert max(len(line) for line in text.splitlines()) <= 80
    command = documents[part]["command"]
    assert command.startswith("scripts/dev bench symbiosis table3 table4 ")


@pytest.mark.parametrize("part", COMPUTED)
def test_claims_of_the_paper_hold(part, documents):
    verdicts = {one.what: one.verdict for one in claims(part, documents) if one.paper}
    assert verdicts
    assert not set(verdicts.values()) & {"", NO, UNDECIDED}, verdicts


def test_page_has_the_computed_parts(made):
    text = (made / "page.md").read_text()
    assert text.startswith("a\n<!-- symbiosis: begin -->\n")
    assert text.endswith("<!-- symbiosis: end -->\nb\n")
    assert (
        "| Table 4 | best schedule | 22.3% | 22.3%, the same pairs | recomputed |" in text
    )
    assert "Not measured yet: fig1, fig2, fig3, fig4, table1, table2, log." in text
    assert "stale" not in text
    shown = {path.name for path in (made / "figures").iterdir()}
    assert shown == {"symbiosis_stream.png"}
    # Rows that do not depend on the number of streams are in the repository's page.
    rows = [line for line in text.splitlines() if line.startswith(("| Table", "| 3"))]
    assert len(rows) == 2 + 6 + 2
    for line in rows:
        assert line in PAGE.read_text()


def test_only_between_markers():
    with pytest.raises(CoschedError, match="no '<!-- x: begin -->'"):
        replaced("no markers\n", "x", "text")


def rows(documents):
    return {
        (row["order"], row["queue"], row["placement"]): row
        for row in documents["stream"]["rows"]
    }


@pytest.mark.parametrize("order", ["fcfs", "largest"])
@pytest.mark.parametrize("queue", symbiosis.computed.QUEUES)
def test_sharing_nodes_is_faster_than_whole_ones(documents, order, queue):
    """Section 2.4: 1.20 on one stream."""
    found = rows(documents)
    for placement in ("packed", "split", "labels", "anyhow", "learned"):
        assert found[order, queue, placement]["compared_over_whole"] > 1.15
    assert 1.2 < found[order, queue, "split"]["compared_over_whole"] < 1.4
    # Jobs run faster beside those that labels choose, unless they take whole nodes.
    speed = {
        name: found[order, queue, name]["mean_speed"] for name in symbiosis.computed.NAMES
    }
    assert min(speed["split"], speed["anyhow"], speed["labels"]) > speed["packed"]
    assert speed["split"] > 1.14
    assert (
        found[order, queue, "anyhow"]["makespan_s"]
        < found[order, queue, "labels"]["makespan_s"]
    )


def test_jobs_on_whole_nodes_are_not_slowed_down(documents):
    for (_, _, placement), row in rows(documents).items():
        if placement == "whole":
            assert row["slowed_share"] == 0.0


def test_a_learner_finds_out_in_spite_of_its_users_and_counters(documents):
    """Wrong labels and noise cost something, and most of it only at first."""
    rounds = documents["learner"]["rounds"]
    before = documents["learner"]["error_before"]
    for ran in rounds.values():
        assert ran[-1]["error"] < before / 2
        assert ran[-1]["throughput"] > ran[0]["throughput"]
    ends = {name: ran[-1]["throughput"] for name, ran in rounds.items()}
    assert ends["no labels"] == ends["users' labels"] > ends["labels mixed up"]
    errors = {name: ran[-1]["error"] for name, ran in rounds.items()}
    # A scheduler without warnings tries everything, also slow schedules.
    assert errors["no labels"] == 0.0 < errors["users' labels"]
    assert rounds["no labels"][0]["throughput"] < 1.0


@pytest.fixture(scope="module")
def of_a_log(tmp_path_factory):
    """Returns the effect of sharing for a short log on a busy machine."""
    folder = tmp_path_factory.mktemp("log")
    workload = generate(Recipe(jobs=300, machine=32, load=0.9, seed=1))
    with (folder / "made.swf").open("w") as stream:
        write_swf(workload, stream)
    words = ["log", "--log", str(folder / "made.swf"), "--seeds", "2", "--out", str(folder)]
    symbiosis.main(words)
    return folder


def test_a_log_on_shared_nodes(of_a_log):
    """Jobs run faster, as the paper says. But large jobs on a busy machine wait longer for
    twice as many nodes. The paper has no log, so the figure is ours and gets no verdict."""
    documents = symbiosis.kept(of_a_log)
    by_placement = {row["placement"]: row for row in documents["log"]["rows"]}
    whole, anyhow = by_placement["whole"], by_placement["anyhow"]
    assert whole["mean_speed"] == 1.0 < anyhow["mean_speed"]
    assert anyhow["makespan_over_whole"] == pytest.approx(1.0, abs=0.01)
    assert 0.91 < anyhow["mean_response_over_whole"] < 0.95  # jobs large for the machine
    assert anyhow["mean_wait_s"] > whole["mean_wait_s"]
    (claim,) = claims("log", documents)
    assert (claim.paper, claim.shown) == ("", "")
    assert claim.ours.startswith(f"{by_placement['anyhow']['mean_wait_over_whole']:.2f} in")
    assert documents["log"]["trace"] == "made.swf"
    assert (of_a_log / "symbiosis_log.png").read_bytes().startswith(b"\x89PNG")
    text = (of_a_log / "symbiosis_log.txt").read_text()
    assert max(len(line) for line in text.splitlines()) <= 80
    _, _, head, first, *_ = text.splitlines()
    titles = re.split(r"  +", head.strip())
    assert titles[:3] == ["makespan (gain)", "wait (gain)", "response (gain)"]
    assert len(set(titles)) == len(re.split(r"  +", first)) - 1, "each column has a title"
    assert "made.swf: 300 jobs, 32 nodes" in ON_MACHINE.section(documents)


def test_bad_input_gets_one_line_and_a_status(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("no marks\n")
    out = ["--out", str(tmp_path)]
    for words, says in (
        (
            ["log", "--log", str(tmp_path / "x.swf"), "--seeds", "1"],
            "x.swf: cannot be read",
        ),
        (["fig1", "--docs", str(page)], "no '<!-- symbiosis: begin -->'"),
        (["fig1", "--docs", str(tmp_path / "none.md")], "No such file or directory"),
    ):
        with pytest.raises(SystemExit, match=f"symbiosis: .*{says}"):
            symbiosis.main([*words, *out])


def test_words_that_make_no_sense(tmp_path, capsys):
    for words, status, says in (
        (["log", "--out", "x"], 2, "name one with --log TRACE"),
        (["fig9", "--out", "x"], 2, "invalid choice: 'fig9'"),
    ):
        with pytest.raises(SystemExit) as caught:
            symbiosis.main(words)
        assert caught.value.code == status
        assert says in capsys.readouterr().err


def test_all_leaves_out_the_log_without_a_file():
    assert "log" not in symbiosis.parse(["all", "--out", "x"]).parts
    assert symbiosis.parse(["all", "--log", "a.swf", "--out", "x"]).parts == list(
        symbiosis.PARTS
    )


def test_documents_are_json(made):
    for part in COMPUTED:
        assert json.loads((made / f"symbiosis_{part}.json").read_text())["part"] == part
