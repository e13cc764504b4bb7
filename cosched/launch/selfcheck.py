"""Runs a small MPI program with and without the shim and reports what works.

The program (``selftest.c``) checks every message that it receives and prints their number.
It stops before its end, and the counters of its tasks are read. Under the paper's carrier
the shim must have counted each message, sent and received, and none without its status
byte. The program starts as with ``cosched-run``, so a fault here is a fault there.

The function that asks the daemon is passed in, so this module does not depend on sockets.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cosched.core.decoding import parse_integer
from cosched.launch.environment import Part, task_environment
from cosched.launch.resolved_job import ResolvedJob
from cosched.launch.shim import ShimBuild, compile_program
from cosched.linux.processes.signals import send_to_child

RANKS = 2
TIMEOUT_S = 60.0
PLAIN = "plain"
"""The run without the shim."""

_SAID = (
    r"(?m)^selftest: mpi (\d+\.\d+) sent (\d+) (\d+) received (\d+) (\d+)"
    r" wrong (\d+) (\d+) active (\d) (\d)$"
)
JobsOf = Callable[[], Iterable[Mapping[str, Any]]]
"""Returns the jobs in a node's status, as its daemon reports them."""


class Outcome(NamedTuple):
    """One run of the program under a carrier."""

    carrier: str  #: the carrier of the sender's status; ``PLAIN``: no shim
    why: str = ""  #: the fault; empty if there is none
    standard: str = ""  #: the version of MPI that the library reports
    messages: int = 0  #: the number that each rank sent; each received as many
    #: The shim's counters by name, for each rank; (): the run failed or had no shim.
    counters: tuple[Mapping[str, int], ...] = ()

    @property
    def ok(self) -> bool:
        return not self.why


def compile_selftest(build: ShimBuild, folder: Path) -> Path:
    """Compiles the program for the MPI of ``build``; CoschedError if that fails."""
    return compile_program(build, Path(__file__).parent / "selftest.c", folder / "selftest")


def run_selftest(
    program: Path,
    start: Callable[[Sequence[str]], ResolvedJob],
    carrier: str,
    *,
    environ: Mapping[str, str],
    shim: Path,
    run_dir: Path,
    jobs_of: JobsOf,
) -> Outcome:
    """Runs the program once under ``carrier``, or without the shim.

    ``start`` makes a job of two ranks from a command line. ``environ``: the environment of
    its launcher. ``run_dir``: the daemons' run directory. ``jobs_of`` asks the daemons.
    """
    gate = program.with_name(f"gate-{carrier}")
    os.mkfifo(gate, 0o600)
    job = start((str(program), str(gate)))
    name = f"check-{carrier}"
    tasks: Mapping[str, str] = {}
    if carrier != PLAIN:
        part = Part(name, run_dir, carrier)
        tasks = task_environment(environ, part=part, wait="spin", shim=shim, verbose=False)
    command = job.command(tasks)
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        process = subprocess.Popen(
            command.argv,
            env={**environ, **command.environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            errors="replace",
        )
        with _Watched(process, job) as watched, gate.open("r+b", buffering=0) as opened:
            said = watched.said()
            tasks_of_job = _tasks(jobs_of(), name) if said and tasks else ()
            opened.write(b"!")
            watched.finish()
        complaints.seek(0)
        complaint = _last_line(complaints.read())
    if watched.too_late:
        return Outcome(carrier, f"not finished after {TIMEOUT_S:g} s")
    if said is None or process.returncode != 0:
        return Outcome(carrier, complaint or f"exit status {process.returncode}")
    return judge(carrier, said, tasks_of_job)


def judge(carrier: str, said: str, tasks: Sequence[Mapping[str, Any]]) -> Outcome:
    """Judges a run that ended. ``tasks``: as the daemon reports them."""
    match = re.search(_SAID, said)
    if match is None:
        return Outcome(carrier, f"unexpected output '{said.strip()}'")
    standard, *words = match.groups()
    numbers = [parse_integer(word, "the self-check", 0, 1 << 62) for word in words]
    sent, received, wrong, active = (numbers[i : i + 2] for i in range(0, 8, 2))
    counters = tuple(dict(task["counters"]) for task in tasks)
    return Outcome(
        carrier,
        _complaint(carrier, sent, received, wrong, active, counters),
        standard,
        sent[0],
        counters,
    )


def _complaint(
    carrier: str,
    sent: Sequence[int],
    received: Sequence[int],
    wrong: Sequence[int],
    active: Sequence[int],
    counters: Sequence[Mapping[str, int]],
) -> str:
    if any(wrong):
        return f"{sum(wrong)} of {sum(received)} messages had wrong contents or length"
    if carrier == PLAIN:
        return "the shim was loaded nevertheless" if any(active) else ""
    if not all(active):
        return "the shim was not loaded (does something else set LD_PRELOAD?)"
    if len(counters) != RANKS:
        return f"{len(counters)} of {RANKS} ranks registered with the daemon"
    if carrier != "prefix":
        return ""
    for rank, counted in enumerate(counters):
        seen = (counted["sent"], counted["received"])
        if seen != (sent[rank], received[rank]):
            return (
                f"rank {rank}: of {sent[rank]} sent and {received[rank]} received "
                f"messages the shim counted {seen[0]} and {seen[1]}"
            )
        if counted["foreign"]:
            return f"rank {rank}: {counted['foreign']} messages came without a status byte"
    return ""


class _Watched:
    """The running job; it is ended if it takes too long or if the block is left."""

    def __init__(self, process: subprocess.Popen[str], job: ResolvedJob) -> None:
        self._process, self._job = process, job
        self.too_late = False

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._end()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def said(self) -> str | None:
        """Returns the program's one line; None if the program ended without it."""
        timer = threading.Timer(TIMEOUT_S, self._give_up)
        timer.start()
        try:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                if line.startswith("selftest:"):
                    return line
            return None
        finally:
            timer.cancel()

    def finish(self) -> None:
        """Waits for its end."""
        try:
            self._process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._give_up()

    def _give_up(self) -> None:
        self.too_late = True
        self._end()

    def _end(self) -> None:
        send_to_child(self._process, self._job.death_signal)
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            send_to_child(self._process, signal.SIGKILL)
            self._process.wait()


def _tasks(jobs: Iterable[Mapping[str, Any]], name: str) -> tuple[Mapping[str, Any], ...]:
    for job in jobs:
        if job["name"] == name:
            return tuple(job["tasks"])
    return ()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
