"""News for several pages from one picture."""

from __future__ import annotations

import json
import threading

import pytest

from cosched.dashboard.looks import Look
from cosched.dashboard.watcher import ANSWERS_MOST, Watcher

NOTHING = Look(10**18, None, are_silent=False, domain=None, troubles=())


class CountedPicture:
    """A picture without rows that keeps its questions."""

    def __init__(self):
        self.version, self.asked = 0, []

    def take(self, look):
        assert look is NOTHING
        self.version += 1

    def since(self, version):
        self.asked.append(version)
        return {"version": self.version, "after": version}


@pytest.fixture
def picture():
    return CountedPicture()


@pytest.fixture
def watcher(picture):
    watcher = Watcher(lambda: NOTHING, picture, 2.0)
    watcher.look()
    return watcher


def test_page_of_another_run_gets_everything(watcher):
    first = json.loads(watcher.news("of before", 7))
    assert (first["after"], first["interval_s"]) == (0, 2.0)
    assert json.loads(watcher.news(first["run"], 1))["after"] == 1


def test_pages_with_the_same_version_share_an_answer(watcher, picture):
    run = json.loads(watcher.news())["run"]
    assert watcher.news(run, 1) is watcher.news(run, 1)
    assert picture.asked == [0, 1]
    watcher.look()
    assert json.loads(watcher.news(run, 1))["version"] == 2
    assert picture.asked == [0, 1, 1]


def test_few_answers_are_kept(watcher, picture):
    run = json.loads(watcher.news())["run"]
    for after in range(1, 3 * ANSWERS_MOST):
        watcher.news(run, after)
    assert len(watcher._answers) <= ANSWERS_MOST


def test_first_page_waits_for_the_first_look(picture):
    begun, go_on = threading.Event(), threading.Event()

    def look():
        begun.set()
        assert go_on.wait(30)
        return NOTHING

    watcher, found = Watcher(look, picture, 2.0), []
    looking = threading.Thread(target=watcher.look)
    asking = threading.Thread(target=lambda: found.append(watcher.news()))
    looking.start()
    assert begun.wait(30)
    asking.start()
    assert found == []
    go_on.set()
    asking.join()
    looking.join()
    assert json.loads(found[0])["version"] == 1
