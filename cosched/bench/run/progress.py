"""Shows the progress of a bench: a live line on a terminal, otherwise a line a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cosched.bench.results.results import Run
from cosched.bench.results.results_table import describe_run

# The bench shares its CPUs with what it measures, so it redraws once a second.
REDRAW_S = 1.0


class Progress:
    """Receives the events of a bench, and writes one line a run, for files and pipes."""

    #: The seconds between calls of ``redraw`` during a run; None: no calls.
    redraw_s: float | None = None

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._place = self._name = ""

    def show(self, what: str) -> None:
        """Something other than a run begins."""
        self._write(what)

    def plan(self, order: Sequence[str]) -> None:
        """These runs are left, in any order."""

    def begin(self, number: int, total: int, name: str, repeat: int) -> None:
        """A run of ``name`` begins."""
        self._place, self._name = f"run {number}/{total}", name

    def redraw(self) -> None:
        """Time has passed."""

    def end(self, run: Run) -> None:
        """The run has ended."""
        self._write(f"{self._place}  {describe_run(run, self._name)}")


class Estimate:
    """Estimates the rest of a bench from the durations of its runs. Pure."""

    def __init__(self, order: Sequence[str]) -> None:
        self._left = list(order)
        self._taken: dict[str, list[float]] = {}

    def ended(self, name: str, seconds: float) -> None:
        """A run of ``name`` took ``seconds``."""
        if name in self._left:  # the newest plan may leave out a run that had begun
            self._left.remove(name)
        self._taken.setdefault(name, []).append(seconds)

    def given_up(self, name: str) -> None:
        """No further run of ``name`` will be made."""
        self._left = [other for other in self._left if other != name]

    def planned(self, order: Sequence[str]) -> None:
        """These runs are left, in any order."""
        self._left = list(order)

    def left_s(self) -> float | None:
        """Returns the seconds for the remaining runs; None before the first end."""
        means = {name: sum(taken) / len(taken) for name, taken in self._taken.items()}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        return sum(means.get(name, usual) for name in self._left)


class TerminalProgress(Progress):
    """One live line with elapsed and estimated time, below the lines of ended runs."""

    redraw_s = REDRAW_S

    def __init__(self, console: Console, live: Live, order: Sequence[str]) -> None:
        super().__init__(console.print)
        self._console = console
        self._live = live
        self._estimate = Estimate(order)
        self._begin_s = self._run_begin_s = time.monotonic()
        self._now = ""

    def show(self, what: str) -> None:
        self._now = what
        self.redraw()

    def plan(self, order: Sequence[str]) -> None:
        self._estimate.planned(order)

    def begin(self, number: int, total: int, name: str, repeat: int) -> None:
        self._run_begin_s = time.monotonic()
        self._name = name
        self._now = f"run {number}/{total}: {name}, repeat {repeat}"
        self.redraw()

    def redraw(self) -> None:
        now_s = time.monotonic()
        line = f"{self._now}  elapsed {clock(now_s - self._begin_s)}"
        left_s = self._estimate.left_s()
        if left_s is not None:
            left_s = max(0.0, left_s - (now_s - self._run_begin_s))
            line += f", about {clock(left_s)} left"
        self._live.update(Text(line, style="dim"), refresh=True)

    def end(self, run: Run) -> None:
        self._estimate.ended(self._name, time.monotonic() - self._run_begin_s)
        if run.failure is not None:
            self._estimate.given_up(self._name)
        style = "red" if run.failure is not None else ""
        self._console.print(Text(describe_run(run, self._name), style=style))


def clock(seconds: float) -> str:
    """``1:05`` for 65 seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def open_progress(stream: TextIO, order: Sequence[str]) -> Iterator[Progress]:
    """Yields the kind of progress that suits ``stream``."""
    if not stream.isatty():
        yield Progress(lambda line: print(line, file=stream, flush=True))
        return
    console = Console(file=stream)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield TerminalProgress(console, live, order)
