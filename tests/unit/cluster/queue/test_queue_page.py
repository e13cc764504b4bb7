"""docs/dev/queue.md shows the states of a job as the code has them."""

from __future__ import annotations

import re

import pytest

from cosched.core.cluster.queue.job import Job
from cosched.core.cluster.queue.states import NEXT, KnownJobs, State, Step
from cosched.core.errors import CoschedError
from tests.places import ROOT

PAGE = ROOT / "docs/dev/queue.md"


def rows():
    """Yields the cells of each row of the page's tables."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| "):
            yield tuple(cell.strip() for cell in line.strip("|").split("|"))


def test_table_of_the_page_is_that_of_the_code():
    names = {state.name.lower() for state in State}
    shown = {cells for cells in rows() if len(cells) == 3 and cells[2] in names}
    assert shown == {
        (state.name.lower(), step.name.lower(), to.name.lower())
        for (state, step), to in NEXT.items()
    }


def test_page_explains_each_state():
    explained = {cells[0] for cells in rows() if len(cells) == 2}
    assert {state.name.lower() for state in State} <= explained


def test_page_names_files_that_exist():
    names = set(re.findall(r"`([\w/]+\.py)`", PAGE.read_text()))
    paths = {path.as_posix() for path in (ROOT / "cosched").rglob("*.py")}
    assert [name for name in names if not any(p.endswith(f"/{name}") for p in paths)] == []


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("step", Step)
def test_each_step_follows_the_table_or_is_refused_with_the_story(state, step):
    entries = KnownJobs()
    entries.enter(Job(7, 1, 1, 0), Step.SUBMITTED, 3)
    entries[7].state = state
    wanted = NEXT.get((state, step))
    if wanted is not None:
        assert entries.step(7, step, 4).state is wanted
        assert (7 in entries) == (wanted is not State.ABSENT)
        return
    with pytest.raises(
        CoschedError, match=rf"{state.value}.* \(it was submitted at 3 ns\)"
    ):
        entries.step(7, step, 4)
