"""The pictures in the docs are those that the commands of scripts/dev make today.

Drawings are made again and compared. A picture of a page carries the headings of that page:
they are compared with those in the page's sources. test_top_pictures.py looks at the
screens of cosched top, and each paper's test at its figures.
"""

from __future__ import annotations

import re

import pytest

from tests.places import ROOT

FIGURES = ROOT / "docs" / "figures"
STALE = "stale: run scripts/dev pictures"
#: The sources of each page.
PAGES = {
    "report.png": ("observe/report/assets/report.js",),
    "queues.png": ("observe/report/assets/sim.js", "observe/report/simulations.py"),
    "dashboard.png": ("dashboard/assets/dashboard.html",),
    "dashboard-phone.png": ("dashboard/assets/dashboard.html",),
}
#: Headings of what the pictures do not show: a bench, coupled domains, help.
ELSEWHERE = {
    *("Domains and pairs", "Keys", "Nothing is up here"),
    *("Mean response", "Makespan", "Ratios", "Slowdown", "Response of each job, s"),
}
#: A heading that is data: the name of the log.
DATA = {"log.swf"}
#: Made of runs: tests/unit/observe/test_top_pictures.py.
SCREENS = {"top.svg", "why.svg"}


def texts_of(picture):
    """Returns the texts of a drawing, which matplotlib repeats as comments."""
    return re.findall(r"<!-- (.*?) -->", picture.read_text())


def version_of(picture):
    return re.search(r"Matplotlib v([\d.]+)", picture.read_text())[1]


def test_drawings_are_those_of_today(tmp_path):
    pictures = pytest.importorskip("scripts.pictures", reason="no matplotlib")
    for made in pictures.draw_all(tmp_path):
        kept = FIGURES / made.name
        assert texts_of(made) == texts_of(kept), STALE
        if version_of(made) == version_of(kept):  # another version draws lines otherwise
            assert made.read_bytes() == kept.read_bytes(), STALE


@pytest.mark.parametrize("picture", PAGES)
def test_picture_of_a_page_has_its_headings(picture):
    headings_of = pytest.importorskip("scripts.page_pictures").headings_of
    shown = headings_of(FIGURES / picture)
    named = [path for name in PAGES[picture] for path in (ROOT / "cosched").glob(name)]
    source = "".join(path.read_text() for path in named)
    known = re.findall(r'make\("h2", \{[^}]*\}, "([^"]+)"\)|<h2[^>]*>([^<]+)</h2>', source)
    titles = {one or other for one, other in known}
    assert len(titles) > 1
    assert titles - ELSEWHERE <= set(shown), STALE
    assert [heading for heading in shown if heading not in source] == [
        *DATA & set(shown)
    ], STALE


def test_each_picture_has_a_test():
    pictures = pytest.importorskip("scripts.pictures", reason="no matplotlib")
    drawn = {f"{draw.__name__}.svg" for draw in pictures.PICTURES}
    assert {path.name for path in FIGURES.iterdir()} == {*drawn, *PAGES, *SCREENS}
