"""A sender causes a line a minute of each kind, whatever it sends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosched.core.complaints import LINE_MOST, QUIET_NS, REMEMBERED, Complaints
from cosched.core.errors import CoschedError, StateLost, changing, must_succeed


class Log:
    """Complaints in virtual time, and their lines."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.lines: list[str] = []
        self.complaints = Complaints(self.lines.append, lambda: self.now_ns)


@pytest.fixture
def log() -> Log:
    return Log()


def test_each_sender_is_logged_once_a_minute_for_each_kind(log: Log) -> None:
    for number in range(100):
        log.complaints.about(7, "too much", f"line {number}")
        log.complaints.about("n1", "too much")
        log.complaints.about(None, "no room")
    assert log.lines == ["user 7: too much: line 0", "n1: too much", "no room"]
    log.complaints.about(7, "too long")
    log.now_ns += QUIET_NS
    log.complaints.about(7, "too much", "again")
    assert log.lines[3:] == [
        "user 7: too long",
        "user 7: too much: again (99 more like this before)",
    ]


def test_many_senders_cost_bounded_memory_and_few_lines(log: Log) -> None:
    for number in range(10 * REMEMBERED):
        log.complaints.about(f"10.0.{number >> 8}.{number & 255}", "an unknown key")
    assert len(log.lines) == REMEMBERED + 1
    log.now_ns += QUIET_NS
    log.complaints.about("10.0.0.1", "an unknown key")
    assert len(log.complaints._since_ns) <= REMEMBERED + 1
    assert len(log.lines) == REMEMBERED + 2


@given(st.text(max_size=2000))
def test_a_line_is_one_line(detail: str) -> None:
    log = Log()
    log.complaints.about("n1", "sent", detail)
    (line,) = log.lines
    assert "\n" not in line
    assert "\x1b" not in line
    assert len(line) <= LINE_MOST


@pytest.mark.parametrize(
    "kind", [KeyError, IndexError, OverflowError, OSError, CoschedError]
)
def test_work_that_fails_costs_a_line(log: Log, kind: type[Exception]) -> None:
    def work() -> None:
        raise kind("no")

    assert not log.complaints.attempt(7, "it failed", work)
    assert len(log.lines) == 1
    assert log.complaints.attempt(7, "it failed", lambda: None)


def test_lost_state_passes(log: Log) -> None:
    def work() -> None:
        raise StateLost("no")

    with pytest.raises(StateLost):
        log.complaints.attempt(7, "it failed", work)
    assert log.lines == []


def test_refusal_of_a_change_passes_and_any_other_error_is_lost_state() -> None:
    with pytest.raises(CoschedError, match=r"^no$"), changing("the end of job 5"):
        raise CoschedError("no")
    with pytest.raises(StateLost, match=r"^job 5: KeyError: 7$"), changing("job 5"):
        raise KeyError(7)
    with pytest.raises(StateLost, match=r"^job 5: no$"), must_succeed("job 5"):
        raise CoschedError("no")
    with pytest.raises(StateLost, match=r"^inner: no$"):  # noqa: SIM117
        with must_succeed("outer"), must_succeed("inner"):
            raise CoschedError("no")
