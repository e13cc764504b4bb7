"""Submit --wait notes once why its job waits; lines of why fit a terminal."""

from __future__ import annotations

import contextlib
import sys

import pytest

from cosched.cli.domain import waiting
from cosched.cli.jobs import why
from cosched.cluster.client import NoAnswer

WAITS = (
    "waits: 0 CPUs free, needs 2; its start is not known, as job 1 is the first of its kind"
)


class Domain:
    """Answers how job 2 is."""

    def __init__(self, state):
        self.state = state
        self.asked = 0

    @contextlib.contextmanager
    def connect(self):
        yield self

    def job(self, number):
        self.asked += 1
        return {"job": number, "state": self.state, "why": WAITS}


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(waiting.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("state", "lines"), [("queued", [f"job 2: {WAITS}"]), ("held", [f"job 2: {WAITS}"])]
)
def test_wait_is_noted_once_after_a_while(clock, state, lines):
    domain, noted = Domain(state), []
    attend = waiting._WaitNoted(domain.connect, 2, noted.append)
    attend()
    assert (noted, domain.asked) == ([], 0)
    clock[0] += waiting.NOTE_AFTER_S
    attend()
    clock[0] += 100
    attend()
    assert (noted, domain.asked) == (lines, 1)


def test_wait_is_noted_later_if_the_domain_is_away(clock):
    domain, noted = Domain("queued"), []

    def connect():
        if clock[0] < 105:
            raise NoAnswer("the private domain cannot go on: its disk is full")
        return domain.connect()

    attend = waiting._WaitNoted(connect, 2, noted.append)
    for _ in range(8):
        clock[0] += 1
        attend()
    assert (noted, domain.asked) == ([f"job 2: {WAITS}"], 1)


def test_job_that_runs_is_no_note(clock):
    domain, noted = Domain("running"), []
    attend = waiting._WaitNoted(domain.connect, 2, noted.append)
    clock[0] += waiting.NOTE_AFTER_S
    attend()
    assert (noted, domain.asked) == ([], 1)


def test_lines_of_why_fit_a_terminal_and_stay_whole_for_programs(monkeypatch):
    line = f"job 2: {WAITS}"
    assert why._fitted(line) == line
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    shown = why._fitted(f"{line}\nshort").splitlines()
    assert max(map(len, shown)) <= 80
    assert shown[1].startswith("  ")
    assert " ".join(" ".join(shown).split()) == f"{line} short"
