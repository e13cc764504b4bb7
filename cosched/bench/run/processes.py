"""Runs the jobs of one run: starts each when it is due and waits for all.

One selector waits for everything: a pidfd for each job, and timeouts for the next
submission, the next deadline and the next progress line. A job's CPU time is the value that
wait4 reports for its launcher; it covers every descendant that was waited for.

A job fails the run if its exit status is not 0 or if it exceeds its timeout. The other jobs
are then stopped. However ``run_jobs`` ends, Ctrl-C included, no job is left.
"""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from resource import struct_rusage

from cosched.bench.results.results import Failure, JobResult
from cosched.bench.run.interrupts import shielded
from cosched.core.decoding import shown_text
from cosched.core.errors import CoschedError
from cosched.linux.processes.descendants import describe_foreign
from cosched.linux.processes.signals import (
    Delivery,
    send_by_pidfd,
    send_to_group,
    signal_name,
)

#: The begin of the line about a run that took longer than its limit.
LATE = "not over in"
STOP_GRACE_S = 5.0
#: A selector's timeout has a limit; a job's time has none.
LONGEST_PAUSE_S = 3600.0
#: The last lines that are shown of a failed job. A launcher adds some of its own.
OUTPUT_LINES = 12
OUTPUT_TAIL_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Submission:
    """A job, ready to start."""

    name: str  #: the instance's name, unique in the workload
    argv: tuple[str, ...]  #: the command
    env: Mapping[str, str]  #: the whole environment of the command
    start_s: float  #: its submission, from the begin of the run
    timeout_s: float  #: a job that runs longer fails the run
    cwd: Path | None = None  #: where it runs; None: the directory of the bench


class RunFailed(CoschedError):
    """A job of the run failed; ``failure`` names the job and the reason."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.line)
        self.failure = failure


class RunLate(RunFailed):
    """The run took longer than its limit."""


@dataclass(slots=True)
class _StartedJob:
    submission: Submission
    process: subprocess.Popen[bytes]
    output: Path
    started_s: float
    deadline_s: float


def run_jobs(
    submissions: Sequence[Submission],
    at_most: int | None,
    folder: Path,
    attend: Callable[[Sequence[str]], float | None] = lambda _running: None,
    limit_s: float = math.inf,
) -> tuple[JobResult, ...]:
    """Runs the jobs and returns their results in the order given.

    Times count from this call.

    ``at_most``: the number of jobs that run at a time; the others wait in order of
        submission. None: all run.
    ``folder``: for the jobs' output.
    ``limit_s``: a longer run fails, whatever the timeouts of its jobs.
    ``attend``: called after each wait with the names of the running jobs, in order of
        their start. Returns the seconds until it should be called again.
    """
    with _Round(submissions, at_most, folder, limit_s) as round_:
        while round_.unfinished:
            round_.start_due()
            round_.wait(attend(round_.running))
    return tuple(round_.results[submission.name] for submission in submissions)


class _Round:
    """The jobs of one run: waiting, running (by pidfd) and ended."""

    def __init__(
        self,
        submissions: Sequence[Submission],
        at_most: int | None,
        folder: Path,
        limit_s: float,
    ) -> None:
        self.results: dict[str, JobResult] = {}
        self._waiting = deque(sorted(submissions, key=lambda job: job.start_s))
        self._running: dict[int, _StartedJob] = {}
        self._at_most = at_most or len(submissions)
        self._limit_s = limit_s
        self._folder = folder
        self._begin_s = time.monotonic()
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> _Round:
        return self

    def __exit__(self, *exc: object) -> None:
        with self._selector, shielded():
            _stop(self._running)

    @property
    def unfinished(self) -> bool:
        return bool(self._waiting or self._running)

    @property
    def running(self) -> tuple[str, ...]:
        """The names of the running jobs, in order of their start."""
        return tuple(job.submission.name for job in self._running.values())

    @property
    def _may_start(self) -> bool:
        return bool(self._waiting) and len(self._running) < self._at_most

    def _now_s(self) -> float:
        return time.monotonic() - self._begin_s

    def start_due(self) -> None:
        """Starts every job that is due."""
        while self._may_start and self._waiting[0].start_s <= self._now_s():
            with shielded():
                job = _start(self._waiting.popleft(), self._folder, self._now_s())
                fd = os.pidfd_open(job.process.pid)
                self._running[fd] = job
            self._selector.register(fd, selectors.EVENT_READ)

    def wait(self, at_most_s: float | None) -> None:
        """Waits until a job ends, is due or is late; keeps the results of ended jobs."""
        moments = [self._limit_s, *(job.deadline_s for job in self._running.values())]
        if self._may_start:
            moments.append(self._waiting[0].start_s)
        pause_s = min(max(0.0, min(moments) - self._now_s()), LONGEST_PAUSE_S)
        events = self._selector.select(
            pause_s if at_most_s is None else min(pause_s, at_most_s)
        )
        now_s = self._now_s()
        for key, _ in events:
            self._selector.unregister(key.fd)
            job = self._running[key.fd]
            with shielded():
                usage = _reap(self._running.pop(key.fd), key.fd)
            self.results[job.submission.name] = _result(job, usage, now_s)
        _check_deadlines(self._running.values(), now_s)
        if self.unfinished and now_s >= self._limit_s:
            running = ", ".join(self.running) or "none"
            raise RunLate(
                Failure(f"{LATE} {self._limit_s:g} s; the jobs that ran: {running}")
            )


def _start(submission: Submission, folder: Path, now_s: float) -> _StartedJob:
    output = folder / f"{submission.name}.out"
    with output.open("wb") as stream:
        try:
            # In a new session, Ctrl-C reaches the bench alone, which then stops the jobs.
            process = subprocess.Popen(
                submission.argv,
                # All nodes order the jobs by this, whichever registers first.
                env={**submission.env, "COSCHED_SUBMITTED": str(time.time_ns())},
                cwd=submission.cwd,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            how = f"start '{submission.argv[0]}'"
            if submission.cwd is not None and not submission.cwd.is_dir():
                how = f"run in '{submission.cwd}'"
            raise CoschedError(
                f"job '{submission.name}': cannot {how}: {error.strerror}"
            ) from error
    return _StartedJob(submission, process, output, now_s, now_s + submission.timeout_s)


def last_lines(output: Path) -> tuple[str, ...]:
    """Returns the last lines of a job's output that have a letter or digit: launchers
    write rulers around their own."""
    try:
        with output.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - OUTPUT_TAIL_BYTES))
            text = shown_text(stream.read())
    except OSError:
        return ()
    lines = [line.rstrip() for line in text.splitlines() if any(map(str.isalnum, line))]
    return tuple(
        "".join(c if c.isprintable() else " " for c in line)
        for line in lines[-OUTPUT_LINES:]
    )


def _reap(job: _StartedJob, fd: int) -> struct_rusage:
    os.close(fd)
    _, status, usage = os.wait4(job.process.pid, 0)
    # wait4 took the status, so Popen cannot read it.
    job.process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def _result(job: _StartedJob, usage: struct_rusage, now_s: float) -> JobResult:
    """Returns the result of an ended job; RunFailed unless its status is 0."""
    name, code = job.submission.name, job.process.returncode
    if code != 0:
        how = f"ended with status {code}"
        if code < 0:
            how = f"was ended by signal {-code} ({signal_name(-code)})"
        raise RunFailed(Failure(f"job '{name}' {how}", last_lines(job.output)))
    return JobResult(
        name=name,
        submitted_s=job.submission.start_s,
        started_s=job.started_s,
        ended_s=now_s,
        cpu_s=usage.ru_utime + usage.ru_stime,
    )


def _check_deadlines(running: Iterable[_StartedJob], now_s: float) -> None:
    for job in running:
        if now_s >= job.deadline_s:
            raise RunFailed(
                Failure(
                    f"job '{job.submission.name}' took longer than its timeout of "
                    f"{job.submission.timeout_s:g} s",
                    last_lines(job.output),
                )
            )


def _stop(running: dict[int, _StartedJob]) -> None:
    """Ends the running jobs: SIGTERM, and later SIGKILL to their whole sessions."""
    with selectors.DefaultSelector() as selector:
        for fd in running:
            send_by_pidfd(fd, signal.SIGTERM)
            selector.register(fd, selectors.EVENT_READ)
        deadline_s = time.monotonic() + STOP_GRACE_S
        while selector.get_map():
            events = selector.select(max(0.0, deadline_s - time.monotonic()))
            for key, _ in events:
                selector.unregister(key.fd)
            if not events:
                break
    for fd, job in running.items():
        _kill(job, fd)
        os.close(fd)
    running.clear()


def _kill(job: _StartedJob, pidfd: int) -> None:
    """Kills a job's session. A launcher that has taken the rights of another user is left;
    a line names it."""
    send_to_group(job.process.pid, signal.SIGKILL)
    if send_by_pidfd(pidfd, signal.SIGKILL) is Delivery.FOREIGN:
        left = describe_foreign(job.process.pid)
        print(f"cosched: job '{job.submission.name}': {left} is left", file=sys.stderr)
        return
    job.process.wait()
