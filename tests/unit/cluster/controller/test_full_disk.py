"""A store on a full disk waits; other errors do not, and a signal ends the wait."""

from __future__ import annotations

import os
import signal
import sqlite3

import pytest

from cosched.cluster.database_errors import advice
from cosched.cluster.engines.native.node_entries import NodeEntries
from cosched.cluster.full_disk import SpaceWait
from cosched.cluster.record import Record, State
from cosched.cluster.store import JobStore
from cosched.cluster.submission import make_submission
from cosched.config.domain import DomainConfig
from cosched.core.errors import CoschedError

FULL = sqlite3.OperationalError("database or disk is full")


def failing(*errors):
    """Returns a statement that fails so often, and then succeeds."""
    left = list(errors)

    def statement():
        if left:
            raise left.pop(0)
        return "stored"

    return statement


@pytest.fixture
def lines():
    return []


@pytest.fixture
def wait(tmp_path, lines):
    return SpaceWait(tmp_path / "jobs.sqlite", lines.append, 5.0, lambda _: None)


def test_a_statement_is_tried_until_there_is_space(wait, lines, tmp_path):
    assert wait.store(failing(FULL, FULL, FULL)) == "stored"
    first, last = lines
    assert first == (
        f"{tmp_path}/jobs.sqlite: database or disk is full: waiting for space, at most 5 s"
    )
    assert "stored after" in last


def test_another_error_is_raised_at_once(wait, lines):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        wait.store(failing(sqlite3.OperationalError("no such table: jobs")))
    assert lines == []


def test_a_disk_that_stays_full_ends_the_wait(tmp_path, lines):
    wait = SpaceWait(tmp_path / "jobs.sqlite", lines.append, 0.0, lambda _: None)
    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        wait.store(failing(*[FULL] * 9))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_and_its_handler_comes_back(tmp_path, lines, number):
    before = signal.getsignal(number)
    kill = lambda _: os.kill(os.getpid(), number)  # noqa: E731
    wait = SpaceWait(tmp_path / "jobs.sqlite", lines.append, 5.0, kill)
    with pytest.raises(CoschedError, match=rf"its disk is full; ended by {number.name}"):
        wait.store(failing(*[FULL] * 9))
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("database or disk is full", "free space on its disk"),
        ("attempt to write a readonly database", "let its user write it"),
        ("unable to open database file", "let its user write it"),
        ("disk I/O error", "its disk has errors"),
        ("database is locked", "another program has it open"),
        ("database disk image is malformed", "move it away"),
    ],
)
def test_the_advice_fits_the_error(tmp_path, text, what):
    found = advice(sqlite3.OperationalError(text), tmp_path / "a", "move it away")
    assert found.startswith(what)


def test_an_input_output_error_of_a_full_disk_counts_as_full(tmp_path, monkeypatch):
    class Full:
        f_bavail = 0

    monkeypatch.setattr(os, "statvfs", lambda _: Full)
    error = sqlite3.OperationalError("disk I/O error")
    assert advice(error, tmp_path / "a", "").startswith("free space")


def test_nodes_are_not_lost_while_the_controller_stood_still():
    members = NodeEntries(DomainConfig("t", "127.0.0.1:1", {"n1": "127.0.0.1:2"}, 4))
    (node,) = members.by_number
    node.state = type(node.state).UP
    now_ns = 10**12
    node.received_ns = 0
    assert members.silent(now_ns) == [node]
    members.excuse(now_ns)
    assert members.silent(now_ns) == []


@pytest.fixture
def file(tmp_path):
    """The file of a store with three jobs."""
    path = tmp_path / "jobs.sqlite"
    store = JobStore(path, ["n1"])
    for _ in range(3):
        job = make_submission(["/bin/true"], environ={})
        store.add(job.token, Record(0, 7, 7, job, 1, State.QUEUED))
    store.close()
    return path


def use(path, lines):
    store = JobStore(path, ["n1"], lines.append)
    try:
        live = [record.number for record in store.live()]
        return live, [record.number for record in store.latest(9)]
    finally:
        store.close()


@pytest.mark.parametrize("byte", [b"\xff", b"\n", b"\x1b", b"z", b"`"])
def test_a_bad_byte_in_the_schema_is_one_line(file, lines, byte):
    data = file.read_bytes()
    start = data.index(b"CREATE TABLE jobs")
    end = data.index(b") STRICT", start)
    refused = 0
    for place in range(start, end, 7):
        file.write_bytes(data[:place] + byte + data[place + 1 :])
        try:
            use(file, lines)
        except CoschedError as error:
            refused += 1
            text = str(error)
            assert text.isprintable()
            assert len(text) < len(str(file)) + 300
    assert refused > 5


@pytest.mark.parametrize("byte", [b"\xff", b"x"])
def test_a_job_with_a_bad_byte_is_left_out_with_one_line(file, lines, byte):
    data = file.read_bytes()
    place = data.index(b"queued") + 1  # in the table, which lies before its index
    file.write_bytes(data[:place] + byte + data[place + 1 :])
    _, latest = use(file, lines)
    assert len(latest) == 2
    line = lines[-1]
    assert line.isprintable()
    assert "is damaged" in line
    assert "it is left out: " in line
