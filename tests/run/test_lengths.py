"""cosched-run records how long jobs were scheduled, and sends it along with like jobs."""

from __future__ import annotations

import json

import pytest

from cosched.core.units import NS_PER_S
from tests.run.test_coscheduled import variables

NAME = "COSCHED_EXPECTED"

#: The record is the same under each library, and test_coscheduled.py starts jobs under all.
pytestmark = pytest.mark.one_mpi


@pytest.fixture
def jobs_dir(served):
    return served.run_dir


@pytest.fixture
def record(tmp_path, monkeypatch):
    """The user's record of runs; there is none yet."""
    path = tmp_path / "state/cosched/runs.jsonl"
    monkeypatch.delenv("COSCHED_RUNS", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return path


def lines(record):
    return [json.loads(line) for line in record.read_text().splitlines()]


def sent(done):
    """Returns the kind that a task received, and the lengths."""
    assert done.returncode == 0, done.stderr
    kind, _, lengths = variables(done)[NAME].partition(":")
    return int(kind), [int(length) for length in lengths.split(",") if length]


def test_second_run_expects_the_length_of_the_first(cosched_run, task, record):
    kind, lengths_ns = sent(cosched_run(task, "environment", NAME))
    assert kind != 0
    assert lengths_ns == []
    (first,) = lines(record)
    assert (first["program"], first["ranks"]) == (f"{task} task", 1)
    assert first["args"] == ["environment", NAME]
    assert 0 < first["length_ns"] < 60 * NS_PER_S
    assert record.stat().st_mode & 0o777 == 0o600
    assert sent(cosched_run(task, "environment", NAME)) == (kind, [first["length_ns"]])
    assert len(lines(record)) == 2
    other, lengths_ns = sent(cosched_run("-n", "2", task, "environment", NAME))
    assert other != kind
    assert lengths_ns == []


def test_estimate_of_the_user_comes_first(cosched_run, task, record):
    for _ in range(2):
        done = cosched_run("--time", "1:30", task, "environment", NAME)
        assert sent(done)[1] == [90 * NS_PER_S]
    assert len(lines(record)) == 2
    assert lines(record)[0]["length_ns"] < 60 * NS_PER_S


def test_failed_run_is_not_recorded(cosched_run, task, record):
    assert cosched_run(task, "exit", "3").returncode == 3
    assert cosched_run("--no-shim", task).returncode == 0
    assert not record.exists()


def test_record_that_is_off_is_not_made(cosched_run, task, record, monkeypatch):
    monkeypatch.setenv("COSCHED_RUNS", "off")
    assert sent(cosched_run(task, "environment", NAME))[1] == []
    assert not record.exists()


def test_unusable_record_is_one_warning(cosched_run, task, record):
    record.mkdir(parents=True)
    done = cosched_run(task, "environment", NAME)
    assert sent(done)[0]
    assert done.stderr == (
        f"cosched-run: warning: {record}: not a regular file; "
        "later runs do not learn from this one\n"
    )


def test_jobs_that_end_together_are_both_recorded(start_cosched_run, any_mpi, record):
    # A job that sleeps may end without a turn; a loop needs the CPU.
    loops = [f"i=0; while [ $i -lt {n}0000 ]; do i=$((i+1)); done" for n in (10, 11, 12)]
    jobs = [start_cosched_run("-n", "1", "/bin/sh", "-c", loop) for loop in loops]
    assert [job.wait(240) for job in jobs] == [0, 0, 0]
    assert {line["args"][1] for line in lines(record)} == set(loops)


@pytest.mark.parametrize("text", ["soon", "5:" + "9" * 99])
def test_malformed_expectation_is_unknown_and_the_job_runs(cosched_run, mpi, task, text):
    """A user's own script may set it."""
    words = ("--mpi", str(mpi.mpiexec), "/usr/bin/env", f"{NAME}={text}", task)
    done = cosched_run("-v", *words)
    assert (done.stdout, done.returncode) == ("1 ranks, sum 0\n", 0), done.stderr
    assert f"{NAME}={text:.96} is not KIND:NANOSECONDS" in done.stderr
    assert NAME not in cosched_run(*words).stderr
