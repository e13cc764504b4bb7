"""Many runs side by side over the cores.

What a run is, and what carries it out, is the caller's. Runs share nothing, so each goes to
a process of its own. How far it is stands in a cell of a small mapped file that both sides
see; a first cell asks the runs to stop.
"""

from __future__ import annotations

import mmap
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
from cosched.sim.queue.runs import Beat

#: How often a caller hears how far the runs are.
POLL_S = 0.2


class Named(Protocol):
    """What came of a run."""

    @property
    def name(self) -> str:
        """The run's name."""


RunT = TypeVar("RunT")
OutcomeT = TypeVar("OutcomeT", bound=Named)

#: Carries out one run: a function of a module, since it goes to other processes.
Work: TypeAlias = Callable[[RunT, Beat], OutcomeT]

#: Hears how many runs are done (2.5: two and a half), and of each outcome as it comes.
Heard: TypeAlias = Callable[[float, "Named | None"], None]


class Stopped(Exception):
    """The caller wants no more of the run."""


def carry_out_all(
    work: Work[RunT, OutcomeT], runs: Sequence[RunT], jobs: int, heard: Heard
) -> list[OutcomeT]:
    """All runs, ``jobs`` at a time; the outcomes in the order of the runs.

    The first error ends them all and is raised.
    """
    if min(jobs, len(runs)) > 1:
        return _side_by_side(work, runs, jobs, heard)
    outcomes = []
    for done, run in enumerate(runs):
        outcome = work(run, _Beat(done, heard))
        heard(done + 1.0, outcome)
        outcomes.append(outcome)
    return outcomes


class _Beat:
    """Passes on how far one run in this process is, not too often."""

    def __init__(self, done: int, heard: Heard) -> None:
        self._done = done
        self._heard = heard
        self._next_s = 0.0

    def __call__(self, share: float) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + POLL_S
            self._heard(self._done + share, None)


class _Board:
    """A byte to stop all runs, then one for each: how many 250ths of it are done."""

    WHOLE = 250

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as stream:
            self.cells = mmap.mmap(stream.fileno(), 0)

    def done(self) -> float:
        """How many runs are done."""
        return sum(self.cells[1:]) / self.WHOLE


def _ignore_interrupts() -> None:
    """Ctrl-C reaches a whole terminal; the caller alone decides what follows."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(work: Work[RunT, OutcomeT], place: int, run: RunT, board_file: Path) -> OutcomeT:
    cells = _Board(board_file).cells

    def beat(share: float) -> None:
        if cells[0]:
            raise Stopped
        cells[1 + place] = int(share * _Board.WHOLE)

    outcome = work(run, beat)
    cells[1 + place] = _Board.WHOLE
    return outcome


def _side_by_side(
    work: Work[RunT, OutcomeT], runs: Sequence[RunT], jobs: int, heard: Heard
) -> list[OutcomeT]:
    # Not fork: a progress display has a thread of its own.
    context = get_context("spawn")
    workers = min(jobs, len(runs))
    with tempfile.TemporaryDirectory(prefix="cosched-sim-") as folder:
        board_file = Path(folder) / "board"
        board_file.write_bytes(bytes(1 + len(runs)))
        board = _Board(board_file)
        with ProcessPoolExecutor(workers, context, _ignore_interrupts) as pool:
            try:
                futures = [
                    pool.submit(_work, work, place, run, board_file)
                    for place, run in enumerate(runs)
                ]
                left = set(futures)
                while left:
                    ended, left = wait(left, POLL_S, return_when=FIRST_COMPLETED)
                    for future in ended:
                        heard(board.done(), future.result())
                    heard(board.done(), None)
            except BrokenProcessPool as error:
                raise CoschedError(
                    "a worker process was killed; fewer --jobs need less memory"
                ) from error
            finally:
                board.cells[0] = 1
                pool.shutdown(cancel_futures=True)
            return [future.result() for future in futures]
