"""The progress of benches and benchmarks: lines for a file, one line for a terminal."""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from itertools import pairwise

import pytest

from benchmarks import progress_lines
from benchmarks.progress_lines import (
    UnderWay,
    counted_steps,
    repeated,
    shown_share,
    steps_of,
)
from cosched.bench.run.arms import Arm
from cosched.bench.run.progress import (
    LINE_S,
    Estimate,
    Progress,
    clock,
    open_progress,
    times,
)
from tests.unit.bench.bench_samples import BATCH, failed_run

#: No test waits longer for a line.
PATIENCE_S = 60.0


@dataclass
class Clock:
    now_s: float = 1000.0

    def __call__(self):
        return self.now_s


class Terminal(io.StringIO):
    def isatty(self):
        return True


class File(io.StringIO):
    """A file that reports when it has some words."""

    def __init__(self, words):
        super().__init__()
        self._words = words
        self.has_words = threading.Event()

    def write(self, text):
        written = super().write(text)
        if self._words in self.getvalue():
            self.has_words.set()
        return written


# --- a bench ---


def test_file_gets_a_line_for_each_run():
    stream = io.StringIO()
    with open_progress(stream, ["batch"]) as progress:
        progress.show("warming up")
        progress.begin("run 1/9", "batch", 1)
        progress.end(BATCH[0])
    assert stream.getvalue() == (
        "warming up\n"
        "run 1/9  batch, repeat 1    response 2.40 s  makespan 3.20 s  outside 1.0%\n"
    )


def bench_of_long_runs(progress, seconds, run_s):
    """A bench of two arms, whose runs take ``run_s`` and ask for lines as a bench does."""
    progress.show("warming up")
    for number, name in enumerate(("batch", "kernel", "batch", "kernel")):
        progress.begin(f"run {number + 1}/4", name, 1 + number // 2)
        for _ in range(int(run_s / progress.redraw_s)):
            seconds.now_s += progress.redraw_s
            progress.redraw()
        progress.end(BATCH[0])


def test_file_gets_the_times_within_a_run():
    lines, seconds = [], Clock()
    progress = Progress(lines.append, ["batch", "kernel"] * 2, seconds)
    bench_of_long_runs(progress, seconds, 100.0)
    times_of_runs = [line for line in lines if "elapsed" in line]
    assert times_of_runs[0] == "run 1/4: batch, repeat 1  elapsed 0:25"
    assert "run 3/4: batch, repeat 2  elapsed 3:45, about 2:55 left" in times_of_runs
    assert len(times_of_runs) >= seconds.now_s // LINE_S - 1000 // LINE_S
    assert not [line for line in lines if "\r" in line]


@pytest.mark.parametrize("run_s", [5.0, 20.0, 35.0, 200.0])
def test_no_half_minute_passes_without_a_line(run_s):
    seconds = Clock()
    at_s = [seconds.now_s]
    progress = Progress(lambda _line: at_s.append(seconds.now_s), (), seconds)
    bench_of_long_runs(progress, seconds, run_s)
    assert max(after - before for before, after in pairwise(at_s)) <= LINE_S


def test_terminal_has_the_times_from_the_first_moment(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with open_progress(stream, ["batch"]) as progress:
        progress.begin("run 1/9", "batch", 1)
        assert "run 1/9: batch, repeat 1  elapsed 0:00" in stream.getvalue()
        progress.end(failed_run(Arm.BATCH, 1))
    assert "failed" in stream.getvalue()


def test_bound_of_the_rest_is_called_a_bound():
    lines, seconds = [], Clock()
    progress = Progress(lines.append, (), seconds)
    for number in (1, 2):
        progress.plan_at_most(["a"] * (9 - number))
        progress.begin(f"run {number} of at most 8", "a", number)
        seconds.now_s += 60.0
        progress.redraw()
        progress.end(BATCH[0])
    assert lines[2] == (
        "run 2 of at most 8: a, repeat 2  elapsed 2:00, at most about 6:00 left"
    )


def test_time_left_follows_the_runs():
    estimate = Estimate(["batch", "kernel", "kernel", "batch"])
    assert estimate.left_s() is None
    estimate.ended("batch", 4.0)
    assert estimate.left_s() == pytest.approx(12.0)
    estimate.ended("kernel", 10.0)
    assert estimate.left_s() == pytest.approx(14.0)


def test_run_outside_the_plan_may_end():
    estimate = Estimate(["strict", "strict"])
    estimate.planned(["kernel"])
    estimate.ended("strict", 1.0)
    assert estimate.left_s() == pytest.approx(1.0)


def test_clock_prints_minutes_and_seconds():
    assert [clock(s) for s in (0, 9.6, 65, 3600)] == ["0:00", "0:10", "1:05", "60:00"]
    assert times(65.0, None) == "elapsed 1:05"
    assert times(65.0, 250.0) == "elapsed 1:05, about 4:10 left"


# --- a benchmark ---


def test_rest_of_a_benchmark_follows_its_steps():
    work = UnderWay(4, 1000.0)
    work.note(0, "starts", 1000.0)
    assert work.line("0 of 4 done", 1030.0) == "starts: 0 of 4 done, elapsed 0:30"
    work.note(1, "starts", 1040.0)
    assert work.line("1 of 4 done", 1060.0) == (
        "starts: 1 of 4 done, elapsed 1:00, about 1:40 left"
    )
    assert work.line("1 of 4 done", 1400.0).endswith("about 0:00 left")


def test_step_without_end_writes_lines_into_a_file(monkeypatch):
    """The lines come while the caller is busy, before any step is done and after one."""
    stream = File("starts: 0 of 3 done, elapsed 0:0")
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress_lines, "LINE_S", 0.001)
    with counted_steps("starts", 3) as advance:
        assert stream.has_words.wait(PATIENCE_S)
        advance()
        later = File("starts: 1 of 3 done, elapsed 0:0")
        monkeypatch.setattr("sys.stderr", later)
        assert later.has_words.wait(PATIENCE_S)
    assert "\r" not in stream.getvalue()


def test_no_line_comes_after_the_block():
    others = threading.active_count()
    acted = threading.Event()
    with repeated(acted.set, 0.001):
        assert acted.wait(PATIENCE_S)
        assert threading.active_count() == others + 1
    assert threading.active_count() == others


def test_share_of_a_benchmark_is_a_line(monkeypatch):
    stream = File("cpu beside gups: 25% done, elapsed 0:0")
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(progress_lines, "LINE_S", 0.001)
    with shown_share() as show:
        show(0.25, "cpu beside gups")
        assert stream.has_words.wait(PATIENCE_S)


def test_items_are_counted_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    assert list(steps_of("abc", "letters")) == ["a", "b", "c"]
    assert "letters" in stream.getvalue()
    assert "100%" in stream.getvalue()
