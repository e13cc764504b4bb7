"""Carries out many runs side by side on the cores, each in a process.

The caller defines the runs and the function that carries one out. Runs share nothing. Each
run writes its progress into a byte of a small mapped file that the caller reads. The first
byte of the file asks all runs to stop.
"""

from __future__ import annotations

import mmap
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from cosched.core.errors import CoschedError
from cosched.linux.prctl import die_with_parent
from cosched.sim.virtual_time import Progress

#: Seconds between two reports of the progress of all runs.
POLL_S = 0.2


class Named(Protocol):
    """A run."""

    @property
    def name(self) -> str:
        """The name in the progress display."""


class Outcome(Protocol):
    """The outcome of a run."""

    @property
    def run(self) -> Named:
        """The run itself."""


RunT = TypeVar("RunT")
OutcomeT = TypeVar("OutcomeT", bound=Outcome)

#: Carries out one run. It is a function of a module, since other processes import it.
Work: TypeAlias = Callable[[RunT, Progress], OutcomeT]

#: Receives how many runs are done (2.5: two and a half), and each outcome when it comes.
Report: TypeAlias = Callable[[float, "Outcome | None"], None]


class Stopped(Exception):
    """The caller asked the run to stop."""


def carry_out_all(
    work: Work[RunT, OutcomeT], runs: Sequence[RunT], jobs: int, report: Report
) -> list[OutcomeT]:
    """Returns the outcomes of all runs, in their order; ``jobs`` runs at a time.

    The first error stops all runs and is raised.
    """
    if min(jobs, len(runs)) > 1:
        return _side_by_side(work, runs, jobs, report)
    outcomes = []
    for done, run in enumerate(runs):
        outcome = work(run, _LimitedReport(done, report))
        report(done + 1.0, outcome)
        outcomes.append(outcome)
    return outcomes


class _LimitedReport:
    """Reports the progress of a run in this process, at most once in ``POLL_S``."""

    def __init__(self, done: int, report: Report) -> None:
        self._done = done
        self._report = report
        self._next_s = 0.0

    def __call__(self, share: float) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + POLL_S
            self._report(self._done + share, None)


class _SharedProgress:
    """A byte that stops all runs, then one byte a run: its progress in 250ths."""

    WHOLE = 250

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as stream:
            self.cells = mmap.mmap(stream.fileno(), 0)

    def done(self) -> float:
        """Returns how many runs are done."""
        return sum(self.cells[1:]) / self.WHOLE


def _prepare_worker(parent: int) -> None:
    """Ends this worker with its parent, even if that is killed. The parent alone handles
    interrupts."""
    die_with_parent(signal.SIGKILL, parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(
    work: Work[RunT, OutcomeT], place: int, run: RunT, progress_file: Path
) -> OutcomeT:
    cells = _SharedProgress(progress_file).cells

    def progress(share: float) -> None:
        if cells[0]:
            raise Stopped
        cells[1 + place] = int(share * _SharedProgress.WHOLE)

    outcome = work(run, progress)
    cells[1 + place] = _SharedProgress.WHOLE
    return outcome


def _side_by_side(
    work: Work[RunT, OutcomeT], runs: Sequence[RunT], jobs: int, report: Report
) -> list[OutcomeT]:
    # Not fork: a progress display has its own thread.
    context = get_context("spawn")
    workers = min(jobs, len(runs))
    with tempfile.TemporaryDirectory(prefix="cosched-sim-") as folder:
        progress_file = Path(folder) / "progress"
        progress_file.write_bytes(bytes(1 + len(runs)))
        shared = _SharedProgress(progress_file)
        with ProcessPoolExecutor(workers, context, _prepare_worker, (os.getpid(),)) as pool:
            try:
                futures = [
                    pool.submit(_work, work, place, run, progress_file)
                    for place, run in enumerate(runs)
                ]
                left = set(futures)
                while left:
                    ended, left = wait(left, POLL_S, return_when=FIRST_COMPLETED)
                    for future in ended:
                        report(shared.done(), future.result())
                    report(shared.done(), None)
            except BrokenProcessPool as error:
                raise CoschedError(
                    "a worker process was killed; fewer --parallel runs need less memory"
                ) from error
            finally:
                shared.cells[0] = 1
                pool.shutdown(cancel_futures=True)
            return [future.result() for future in futures]
