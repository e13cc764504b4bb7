"""Runs one by one and side by side: the same outcomes, and clean ends."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cosched.cli.sim.queue import render
from cosched.core.errors import CoschedError
from cosched.sim import parallel
from cosched.sim.cells import duration
from cosched.sim.logs.generate import Recipe, generate
from cosched.sim.logs.swf import write_swf
from cosched.sim.logs.workload import Estimates
from cosched.sim.parallel import carry_out_all
from cosched.sim.progress import open_progress
from cosched.sim.queue.queue_runs import Run, carry_out


@pytest.fixture
def trace(tmp_path) -> Path:
    path = tmp_path / "made.v1.swf"
    with path.open("w") as stream:
        write_swf(generate(Recipe(jobs=400, machine=64, load=0.9, seed=1)), stream)
    return path


@pytest.fixture
def runs(trace) -> list[Run]:
    return [
        Run(trace, policy, estimates)
        for policy in ("fcfs", "easy", "wfp")
        for estimates in Estimates
    ]


def quiet(done, outcome):
    pass


def facts(outcomes):
    return [replace(outcome, cpu_s=0.0) for outcome in outcomes]


def test_side_by_side_is_the_same_as_one_by_one(runs):
    heard = []
    one_by_one = carry_out_all(carry_out, runs, 1, quiet)
    together = carry_out_all(
        carry_out, runs, 3, lambda done, outcome: heard.append((done, outcome))
    )
    assert [outcome.run for outcome in together] == runs
    assert facts(together) == facts(one_by_one)
    told = [outcome for _, outcome in heard if outcome is not None]
    assert sorted(o.run.name for o in told) == sorted(run.name for run in runs)
    dones = [done for done, _ in heard]
    assert dones == sorted(dones)
    assert dones[-1] == len(runs)


def test_progress_of_one_run(runs):
    heard = []
    carry_out_all(carry_out, runs[:1], 4, lambda done, outcome: heard.append(done))
    assert heard[0] == 0.0
    assert heard[-1] == 1.0


def test_the_first_error_ends_all(runs, tmp_path):
    wrong = replace(runs[0], trace=tmp_path / "absent.swf")
    for jobs in (1, 2):
        with pytest.raises(CoschedError, match=r"absent.swf: cannot be read"):
            carry_out_all(carry_out, [*runs, wrong], jobs, quiet)


def test_a_caller_that_gives_up_stops_the_workers(runs):
    def interrupt(done, outcome):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out_all(carry_out, runs, 2, interrupt)


def killed(work, place, run, board_file):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_is_killed(runs, monkeypatch):
    monkeypatch.setattr(parallel, "_work", killed)
    with pytest.raises(CoschedError, match="a worker process was killed"):
        carry_out_all(carry_out, runs, 2, quiet)


def test_an_outcome(trace, tmp_path):
    run = Run(trace, "easy", Estimates.LOG, save_in=tmp_path, command="cosched sim x")
    outcome = carry_out(run)
    document = outcome.document()
    assert document["files"] == [
        str(tmp_path / "made.v1.easy.log.npz"),
        str(tmp_path / "made.v1.easy.log.csv"),
    ]
    assert all(Path(path).exists() for path in document["files"])
    assert document["machine"] == 64
    assert document["figures"]["jobs"] == 400
    assert document["counts"]["started_in_order"] + document["counts"]["backfilled"] == 400


def test_backfill_helps(trace):
    """On a busy machine each step of the ladder waits less than the one below."""
    waits = {
        (policy, estimates): carry_out(Run(trace, policy, estimates)).figures["mean_wait_s"]
        for policy in ("fcfs", "easy", "conservative")
        for estimates in Estimates
    }
    for estimates in Estimates:
        for backfill in ("easy", "conservative"):
            assert waits[backfill, estimates] < waits["fcfs", estimates] / 2


def test_lines_for_a_pipe(runs):
    stream = io.StringIO()
    with open_progress(stream, len(runs)) as heard:
        carry_out_all(carry_out, runs, 1, heard)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "1/6  made.v1.fcfs.log"
    assert len(lines) == 6


@dataclass(frozen=True)
class NamedRun:
    name: str


@dataclass(frozen=True)
class Ended:
    run: NamedRun


def test_lines_say_how_long_the_rest_takes(monkeypatch):
    clock = iter([100.0, 100.5, 130.0, 400.0, 1000.0])
    monkeypatch.setattr("cosched.sim.progress.monotonic", lambda: next(clock))
    stream = io.StringIO()
    with open_progress(stream, 4) as heard:
        heard(0.5, None)
        heard(1.0, Ended(NamedRun("a")))
        heard(2.5, Ended(NamedRun("b")))
        heard(4.0, Ended(NamedRun("c")))
    assert stream.getvalue().splitlines() == [
        "1/4  a, about 90 s left",
        "2/4  b, about 3.0 min left",
        "3/4  c",
    ]


def test_lines_come_without_the_end_of_a_run(monkeypatch):
    """The first after a second, the next ones after ten."""
    clock = iter([100.0, 100.9, 101.1, 102.0, 111.2, 112.0])
    monkeypatch.setattr("cosched.sim.progress.monotonic", lambda: next(clock))
    stream = io.StringIO()
    with open_progress(stream, 1) as heard:
        for done in (0.1, 0.2, 0.3, 0.4):
            heard(done, None)
        heard(1.0, Ended(NamedRun("a")))
    assert stream.getvalue().splitlines() == ["0/1  20% done", "0/1  40% done"]


def test_the_last_run_has_one_worker(monkeypatch):
    """Two runs side by side took 100 s; the third, alone, is half as fast as two were."""
    clock = iter([0.0, 100.0, 100.0])
    monkeypatch.setattr("cosched.sim.progress.monotonic", lambda: next(clock))
    stream = io.StringIO()
    with open_progress(stream, 3, 2) as heard:
        heard(2.0, Ended(NamedRun("a")))
        heard(2.0, Ended(NamedRun("b")))
    assert stream.getvalue().splitlines()[-1] == "2/3  b, about 100 s left"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_for_a_terminal(runs, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with open_progress(stream, len(runs)) as heard:
        carry_out_all(carry_out, runs, 1, heard)
    assert "run 6/6" in stream.getvalue()
    assert "left" in stream.getvalue()


def test_the_table_fits_a_terminal(runs):
    outcomes = carry_out_all(carry_out, runs, 1, quiet)
    outcomes[0].skipped["no size"] = 3
    table = render(outcomes)
    assert max(len(line) for line in table.splitlines()) <= 80
    assert "400 jobs, 64 nodes" in table
    assert "lines left out: 3 no size" in table
    assert len(table.splitlines()) == 4 + len(runs)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2.0 min"), (5400, "1.5 h"), (200000, "2.3 d")],
)
def test_durations_for_people(seconds, text):
    assert duration(seconds) == text


ENDLESS = """
import os, sys, time
from dataclasses import dataclass
from cosched.sim.parallel import carry_out_all

@dataclass
class Run:
    name: str

def work(run, progress):
    os.write(1, b"begun\\n")  # at once, so that the lines of two workers do not mix
    time.sleep(600)

if __name__ == "__main__":
    carry_out_all(work, [Run("a"), Run("b")], 2, lambda *_: None)
"""


def test_workers_end_with_a_killed_parent(tmp_path):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    words = [sys.executable, str(script)]
    kept = {**os.environ, "TMPDIR": str(tmp_path)}  # a killed parent leaves its folder
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=kept) as parent:
        workers = [parent.stdout.readline() for _ in range(2)]
        parent.kill()
        assert workers == ["begun\n"] * 2
        # The workers have the other end, so it is closed once both have ended.
        assert parent.communicate(timeout=60)[0] == ""
