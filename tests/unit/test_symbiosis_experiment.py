"""The symbiosis experiment, in small: its files, and the claims of docs/results.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from benchmarks.experiments import symbiosis
from benchmarks.experiments.section import replaced

PAGE = Path(__file__).parent.parent.parent / "docs/results.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("symbiosis")
    page = folder / "page.md"
    page.write_text("a\n<!-- symbiosis: begin -->\nold\n<!-- symbiosis: end -->\nb\n")
    symbiosis.main(["--repeat", "4", "--out", str(folder), "--docs", str(page)])
    return folder


@pytest.fixture(scope="module")
def document(made):
    return json.loads((made / "symbiosis.json").read_text())


def test_every_part_has_its_pictures_and_its_text(made, document):
    for part in symbiosis.PARTS:
        assert (made / f"symbiosis_{part}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (made / f"symbiosis_{part}.svg").read_text()
        assert document[part]["text"] in (made / "symbiosis.txt").read_text()
    lines = (made / "symbiosis.txt").read_text().splitlines()
    assert max(len(line) for line in lines) <= 80


def test_the_page_says_what_was_computed(made):
    text = (made / "page.md").read_text()
    assert text.startswith("a\n<!-- symbiosis: begin -->\n")
    assert text.endswith("<!-- symbiosis: end -->\nb\n")
    assert "| best schedule | 22.3% | 22.3%, the same pairs |" in text
    assert "old" not in text
    # What does not depend on how many streams were drawn stands in the repository's page.
    for line in text.splitlines():
        if line.startswith(("| best", "| worst", "| user-guided", "| mean", "| any sch")):
            assert line in PAGE.read_text()


def test_only_between_markers():
    with pytest.raises(ValueError, match="no '<!-- x: begin -->'"):
        replaced("no markers\n", "x", "text")


def rows(document):
    return {
        (row["order"], row["queue"], row["placement"]): row
        for row in document["streams"]["rows"]
    }


@pytest.mark.parametrize("order", ["fcfs", "largest"])
@pytest.mark.parametrize("queue", symbiosis.QUEUES)
def test_sharing_nodes_is_faster_than_whole_ones(document, order, queue):
    """Section 2.4: 1.20 on one stream."""
    found = rows(document)
    for placement in ("packed", "split", "labels", "anyhow", "learned"):
        assert found[order, queue, placement]["compared_over_whole"] > 1.05
    assert 1.1 < found[order, queue, "split"]["compared_over_whole"] < 1.6
    # Jobs run faster beside those that labels choose, but halves starve for it.
    speed = {name: found[order, queue, name]["mean_speed"] for name in symbiosis.NAMES}
    assert speed["labels"] > speed["anyhow"] > speed["packed"]
    assert speed["split"] > 1.1
    assert (
        found[order, queue, "anyhow"]["makespan_s"]
        < found[order, queue, "labels"]["makespan_s"]
    )


def test_nobody_slows_down_on_nodes_of_his_own(document):
    for (_, _, placement), row in rows(document).items():
        if placement == "whole":
            assert row["slowed_share"] == 0.0


def test_a_user_may_have_another_model(made, capsys):
    symbiosis.main(["--parts", "table4", "--model", "npb", "--out", str(made)])
    assert "CG" in capsys.readouterr().out
