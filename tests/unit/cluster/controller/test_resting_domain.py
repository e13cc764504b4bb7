"""A private domain rests when it is down and no job waits in it."""

from __future__ import annotations

import os

import pytest

from cosched.cluster.paths import DomainPaths
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import Submission
from cosched.cluster.up import resting
from cosched.cluster.up.resting import is_at_rest
from cosched.core.errors import CoschedError

JOB = Submission(token="t", name="a", argv=("/bin/true",), environ={}, cwd="/")


@pytest.fixture
def paths(tmp_path):
    """A private domain that is down and has no jobs."""
    paths = DomainPaths(tmp_path)
    paths.directory.mkdir()
    paths.config.write_text('name = "private"\n[nodes]\nn1 = "127.0.0.1:2"\n')
    JobStore(paths.store, ("n1",)).close()
    return paths


def test_domain_rests_until_a_job_waits_in_it(paths):
    assert is_at_rest(paths.run_dir)
    store = JobStore(paths.store, ("n1",))
    number = store.add("t", Record(0, 7, 7, JOB, 0, State.HELD))
    assert not is_at_rest(paths.run_dir)
    store.save(Record(number, 7, 7, JOB, 0, State.CANCELLED, ended_ns=1))
    assert is_at_rest(paths.run_dir)
    store.close()


def test_other_domains_do_not_rest(paths, monkeypatch):
    with monkeypatch.context() as another_user:
        another_user.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert not is_at_rest(paths.run_dir)
    for held in (paths.controller_lock, paths.agent_lock("n1")):
        monkeypatch.setattr(resting, "is_held", held.__eq__)
        assert not is_at_rest(paths.run_dir)
    monkeypatch.undo()
    paths.config.write_text('name = "site"\n[nodes]\nn1 = "127.0.0.1:2"\n')
    assert not is_at_rest(paths.run_dir)
    paths.config.unlink()
    assert not is_at_rest(paths.run_dir)


def test_domain_without_tables_rests(paths):
    paths.store.write_bytes(b"")
    assert is_at_rest(paths.run_dir)


def test_damaged_file_of_a_domain_is_one_line(paths):
    paths.store.write_bytes(b"no database" * 100)
    with pytest.raises(
        CoschedError, match=r"jobs\.sqlite: file is not a database; move the"
    ):
        is_at_rest(paths.run_dir)
