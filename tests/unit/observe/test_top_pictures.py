"""The pictures of ``cosched top`` in the docs show the screen as it is now. ``scripts/dev
screens`` takes them again."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from pathlib import Path

import pytest

from cosched.observe.top.job_columns import LEGEND, header
from cosched.observe.top.model import view
from cosched.observe.top.row_list import Rows
from cosched.observe.top.screen import TopApp, WhyScreen
from cosched.observe.top.text import node_line
from tests.places import ROOT
from tests.unit.observe.top_samples import job, sample, status, task

FIGURES = ROOT / "docs" / "figures"
STALE = "stale: run scripts/dev screens"


def lines_of(picture: Path) -> list[str]:
    """Returns the lines of a screen that textual drew."""
    found = defaultdict(list)
    texts = r'<text[^>]* x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>'
    for x, y, text in re.findall(texts, picture.read_text()):
        found[float(y)].append((float(x), html.unescape(text).replace("\xa0", " ")))
    lines = ("".join(text for _, text in sorted(found[y])) for y in sorted(found))
    return [" ".join(line.split()) for line in lines]


def shape(line: str) -> str:
    """Returns a line with # for each number, and without the names at its begin."""
    return re.sub(r"\d+(\.\d+)?", "#", line).partition(" slice ")[2]


def keys_of(parts) -> str:
    """Returns what the keys of parts of a screen do, as its last line shows it."""
    shown = [each for part in parts for each in part.BINDINGS]
    return " ".join(each.description for each in shown if each.show)


@pytest.fixture(scope="module")
def top():
    return lines_of(FIGURES / "top.svg")


def test_columns_and_legend_are_those_of_the_screen(top):
    for line in (header(), *LEGEND.splitlines()):
        assert " ".join(line.split()) in top, STALE


def test_nodes_are_shown_as_on_the_screen(top):
    before, after = (sample(n, status("n1", [job("a", [task(1)])])) for n in (1.0, 2.0))
    (node,) = view(before, after).nodes
    found = {shape(line) for line in top if line.startswith("lab")}
    assert found == {shape(" ".join(node_line(node).split()))}, STALE


@pytest.mark.parametrize(
    ("name", "parts"), [("top", (Rows, TopApp)), ("why", (WhyScreen,))]
)
def test_keys_are_those_of_the_screen(name, parts):
    *_, last = (line for line in lines_of(FIGURES / f"{name}.svg") if line)
    words = [word for word in last.split() if len(word) > 1 and word != "esc"]
    assert " ".join(words) == keys_of(parts), STALE
