"""The scheduler daemons that the agent of one user's domain starts and keeps."""

import asyncio
from pathlib import Path

import pytest

from cosched.cluster.agent import own_daemons
from cosched.cluster.agent.own_daemons import OwnDaemons
from cosched.core.errors import CoschedError, NoDaemon
from cosched.rundir.directories import SYSTEM_RUN_DIR
from cosched.rundir.paths import NodePaths


class Control:
    """A connection to daemons that answer, or end just now."""

    ending = 0
    requests = ()
    closed = 0

    def __init__(self, paths):
        if Control.ending:
            Control.ending -= 1
            raise NoDaemon("no daemon here")

    def request(self, what):
        Control.requests = [*Control.requests, what]

    def close(self):
        Control.closed += 1


@pytest.fixture
def started(monkeypatch):
    """The starts of daemons; no daemon is up before."""
    found = []
    Control.ending, Control.requests, Control.closed = 0, (), 0
    monkeypatch.setattr(own_daemons, "ControlClient", Control)
    monkeypatch.setattr(own_daemons, "daemons_are_up", lambda run_dir: False)
    monkeypatch.setattr(
        own_daemons, "start_or_join", lambda paths, words: found.append(words)
    )
    return found


def kept(log=print):
    daemons = OwnDaemons(NodePaths(Path("/nowhere"), "n1"), log)
    asyncio.run(daemons.start())
    daemons.close()


def test_daemons_are_kept_by_a_lease_until_the_agent_ends(started):
    kept()
    assert (started, Control.requests, Control.closed) == ([["--private"]], ["lease"], 1)


def test_daemons_that_end_just_now_are_started_again(started):
    Control.ending = 1
    kept()
    assert (len(started), Control.requests) == (2, ["lease"])


def test_jobs_run_without_daemons_that_do_not_start(started, monkeypatch):
    def fail(paths, words):
        raise CoschedError("node n1: /dev/shm: No space left on device")

    monkeypatch.setattr(own_daemons, "start_or_join", fail)
    lines = []
    kept(lines.append)
    (line,) = lines
    assert "/dev/shm: No space left on device; jobs here are not coscheduled" in line


def test_roots_daemons_serve_the_jobs_where_they_are_up(started, monkeypatch):
    monkeypatch.setattr(own_daemons, "daemons_are_up", lambda path: path == SYSTEM_RUN_DIR)
    kept()
    assert not started
