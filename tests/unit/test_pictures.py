"""The pictures in the docs are those that the commands of scripts/dev make today.

Drawings are made again and compared. A picture of a page carries the texts of that page:
they are compared with those in the page's sources. test_top_pictures.py looks at the
screens of cosched top, and each paper's test at its figures.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.places import ROOT

FIGURES = ROOT / "docs" / "figures"
STALE = "stale: run scripts/dev pictures"
DASHBOARD = "dashboard/assets/dashboard.html"
#: The sources of each page.
PAGES = {
    "report.png": ("observe/report/assets/report.js",),
    "queues.png": ("observe/report/assets/sim.js", "observe/report/simulations.py"),
    "dashboard.png": (DASHBOARD,),
    "dashboard-phone.png": (DASHBOARD,),
}
#: Headings of what the pictures do not show: a bench, coupled domains, help.
ELSEWHERE = {
    *("Domains and pairs", "Keys", "Nothing is up here"),
    *("Mean response", "Makespan", "Ratios", "Slowdown", "Response of each job, s"),
}
#: The begin of a sentence that the picture does not show: jobs of several users.
OTHER_SENTENCE = "The number before the name"
#: A heading that is data: the name of the log.
DATA = {"log.swf"}
#: The names of jobs, as the page writes them.
JOBS = {
    "report.png": {"north", "south", "west"},
    "queues.png": {f"{policy}, run times by log" for policy in ("fcfs", "easy", "wfp")},
}
#: Made of runs: tests/unit/observe/test_top_pictures.py.
SCREENS = {"top.svg", "why.svg"}
#: A place of a text that data fills.
_HOLE = re.compile(r"\$?\{[^}]*\}")


def texts_of(picture):
    """Returns the texts of a drawing, which matplotlib repeats as comments."""
    return re.findall(r"<!-- (.*?) -->", picture.read_text())


def shown_in(picture, kind):
    """Returns the texts that a picture of a page carries."""
    page_pictures = pytest.importorskip("scripts.page_pictures")
    return page_pictures.shown_in(FIGURES / picture, kind)


def version_of(picture):
    return re.search(r"Matplotlib v([\d.]+)", picture.read_text())[1]


def test_drawings_are_those_of_today(tmp_path):
    pictures = pytest.importorskip("scripts.pictures", reason="no matplotlib")
    for made in pictures.draw_all(tmp_path):
        kept = FIGURES / made.name
        assert texts_of(made) == texts_of(kept), STALE
        if version_of(made) == version_of(kept):  # another version draws lines otherwise
            assert made.read_bytes() == kept.read_bytes(), STALE


@cache
def source_of(picture):
    named = [path for name in PAGES[picture] for path in (ROOT / "cosched").glob(name)]
    return "".join(path.read_text() for path in named)


def paragraphs(source):
    """Returns the paragraphs that a page always has: texts whose parts are literals."""
    return [
        "".join(re.findall(r'"([^"]*)"', parts))
        for parts in re.findall(r'make\("p", \{\}, ((?:\s*\+?\s*"[^"]*")+)\)', source)
    ]


def pieces(source):
    """Returns patterns of the literals from which pages put sentences together."""
    literals = re.findall(r'"([^"\n]*)"|`([^`\n]*)`', source)
    texts = [text for pair in literals for text in pair]
    worded = [
        text for text in texts if len(re.findall("[a-z]{2,}", _HOLE.sub("", text))) > 1
    ]
    return [".+?".join(map(re.escape, _HOLE.split(text))) for text in worded]


@pytest.mark.parametrize("picture", PAGES)
def test_picture_of_a_page_has_its_headings(picture):
    headings, source = shown_in(picture, "headings"), source_of(picture)
    known = re.findall(r'make\("h2", \{[^}]*\}, "([^"]+)"\)|<h2[^>]*>([^<]+)</h2>', source)
    titles = {one or other for one, other in known}
    assert len(titles) > 1
    assert titles - ELSEWHERE <= set(headings), STALE
    assert [heading for heading in headings if heading not in source] == [
        *DATA & set(headings)
    ], STALE


@pytest.mark.parametrize("picture", JOBS)
def test_picture_of_a_report_has_its_sentences(picture):
    sentences, source = shown_in(picture, "sentences"), source_of(picture)
    fixed = {text for text in paragraphs(source) if not text.startswith(OTHER_SENTENCE)}
    assert len(fixed) > 1
    assert fixed <= set(sentences), STALE
    page = re.compile(f"(?:(?:{'|'.join(pieces(source))})[ ;.,0-9]*)+")
    assert [text for text in sentences if not page.fullmatch(text)] == [], STALE


@pytest.mark.parametrize("picture", JOBS)
def test_picture_of_a_report_has_the_names_of_its_jobs(picture):
    assert set(shown_in(picture, "jobs")) == JOBS[picture], STALE


def test_each_picture_has_a_test():
    pictures = pytest.importorskip("scripts.pictures", reason="no matplotlib")
    drawn = {f"{draw.__name__}.svg" for draw in pictures.PICTURES}
    assert {path.name for path in FIGURES.iterdir()} == {*drawn, *PAGES, *SCREENS}
