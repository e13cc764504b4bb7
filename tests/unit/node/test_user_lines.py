"""The log's lines: one line each, and few of one user."""

from __future__ import annotations

import logging
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.decoding import printable
from cosched.node.records import log_file
from cosched.node.records.user_lines import AT_ONCE, EACH_NS, UserLines

USER = 12345


def record_of(text, *arguments, uid=None):
    record = logging.LogRecord("t", logging.INFO, "f", 1, text, arguments, None)
    if uid is not None:
        record.uid = uid
    return record


@pytest.fixture
def lines():
    now = [0]
    few = UserLines(lambda: now[0])

    def come(uid, text="job %s ended"):
        record = record_of(text, "a", uid=uid)
        return record.getMessage() if few.filter(record) else None

    come.now = now
    return come


def test_user_with_many_lines_leaves_room_for_others(lines):
    came = [lines(USER) for _ in range(10_000)]
    written = [line for line in came if line is not None]
    assert AT_ONCE * 0.8 <= len(written) <= AT_ONCE * 1.2
    assert lines(USER + 1) == "job a ended"
    for uid in (None, 0, os.geteuid()):
        assert all(lines(uid) for _ in range(10_000))
    lines.now[0] += 2 * EACH_NS
    missing = 10_000 - len(written)
    assert lines(USER) == f"job a ended ({missing} lines of uid {USER} left out)"
    lines.now[0] += 2 * EACH_NS
    assert lines(USER) == "job a ended"


def test_lines_of_a_day_fit_into_the_log(lines):
    day_ns = 24 * 3600 * 10**9
    written = 0
    for at_ns in range(0, day_ns, EACH_NS // 5):
        lines.now[0] = at_ns
        written += lines(USER) is not None
    assert written * 350 < log_file.LOG_BYTES


def test_left_out_lines_of_many_users_are_counted_in_bounded_room(lines):
    for uid in range(20_000, 22_500):
        for _ in range(AT_ONCE + 20):
            lines(uid)
    assert "left out" not in lines(USER)


@pytest.fixture
def written(tmp_path):
    """Writes lines with a handler of the log; returns what is in the file."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    path = tmp_path / "scheduler.log"

    def write(open_it, *records):
        handler = open_it(path)
        for record in records:
            handler.handle(record)
        handler.close()
        return path.read_text()

    yield write
    root.handlers[:] = before
    root.setLevel(level)


def open_scheduler(path):
    return log_file.open_log(path, verbose=False, capture=False)


def open_timer(path):
    return log_file.join_log(path, "timer", limit_bytes=1000)


@pytest.mark.parametrize("open_it", [open_scheduler, open_timer])
def test_name_cannot_forge_a_line(written, open_it):
    name = "a\n2026-11-27 00:00:00,000 INFO root: forged\x1b[31m\u2028"
    text = written(open_it, record_of("shared memory %s: refused", name))
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert printable(text[:-1]) == text[:-1]


def test_traceback_keeps_its_lines(written):
    record = record_of("failed")
    try:
        int("odd")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    assert "\nTraceback" in written(open_scheduler, record)


def test_user_cannot_fill_the_file(written):
    many = [record_of("job %d ended", number, uid=USER) for number in range(5000)]
    text = written(open_scheduler, record_of("ready"), *many)
    assert "ready" in text
    assert text.count("\n") < AT_ONCE * 1.3


@given(st.integers(1, 400), st.integers(10, 60))
def test_log_without_a_scheduler_daemon_is_bounded(tmp_path_factory, number, length):
    path = tmp_path_factory.mktemp("log") / "scheduler.log"
    handler = log_file._Following(path, 1000)
    for _ in range(number):
        handler.handle(record_of("x" * length))
    handler.close()
    assert all(file.stat().st_size <= 1000 + 61 for file in path.parent.iterdir())
    assert len(list(path.parent.iterdir())) <= 2


def test_timer_daemon_goes_on_without_its_log(tmp_path, capsys):
    folder = tmp_path / "n"
    folder.mkdir()
    handler = log_file._Following(folder / "scheduler.log", 1000)
    (folder / "scheduler.log").unlink()
    folder.rmdir()
    for _ in range(2):
        handler.handle(record_of("the scheduler daemon died"))
    handler.close()
    assert "FileNotFoundError" in capsys.readouterr().err
