"""Shows the progress of a bench: a live line on a terminal, lines in a file or a pipe."""

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
#: In a file, lines with the times are at most this far apart.
LINE_S = 30.0
#: A bench that writes into a file asks this often whether such a line is due.
LOOK_S = 5.0


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


class Progress:
    """Receives the events of a bench, and writes lines for files and pipes: one a run, and
    one with the times at least every ``LINE_S``.

    write: takes a line. order: the runs that are left. seconds: returns the time.
    """

    #: The seconds between calls of ``redraw`` during a run.
    redraw_s = LOOK_S
    #: The least seconds between lines with the times.
    rest_s = LINE_S - LOOK_S

    def __init__(
        self,
        write: Callable[[str], None],
        order: Sequence[str] = (),
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._estimate = Estimate(order)
        self._seconds = seconds
        self._begin_s = self._run_begin_s = self._line_s = seconds()
        self._rest = "about"
        self._place = self._name = self._now = ""

    def show(self, what: str) -> None:
        """Something other than a run begins."""
        self._now = what
        self._write(what)

    def note(self, line: str) -> None:
        """Writes a line about the bench as a whole, which stays on a terminal, too."""
        self._write(line)

    def plan_at_most(self, order: Sequence[str]) -> None:
        """These runs are left at most, in any order."""
        self._estimate.planned(order)
        self._rest = "at most about"

    def begin(self, place: str, name: str, repeat: int) -> None:
        """A run of ``name`` begins. place: its number and the number of all runs."""
        self._run_begin_s = self._seconds()
        self._place, self._name = place, name
        self._now = f"{place}: {name}, repeat {repeat}"

    def redraw(self) -> None:
        """Time has passed. Callers may call this more often than every ``redraw_s``."""
        now_s = self._seconds()
        if now_s - self._line_s >= self.rest_s:
            self._line_s = now_s
            self._show_times()

    def end(self, run: Run) -> None:
        """The run has ended."""
        self._estimate.ended(self._name, self._seconds() - self._run_begin_s)
        if run.failure is not None:
            self._estimate.given_up(self._name)
        self._write_result(run)

    def _show_times(self) -> None:
        self._write(self._line())

    def _write_result(self, run: Run) -> None:
        self._write(f"{self._place}  {describe_run(run, self._name)}")

    def _line(self) -> str:
        """Returns what is under way, with the times."""
        now_s, left_s = self._seconds(), self._estimate.left_s()
        if left_s is not None:
            left_s = max(0.0, left_s - (now_s - self._run_begin_s))
        return f"{self._now}  {times(now_s - self._begin_s, left_s, self._rest)}"


class TerminalProgress(Progress):
    """One live line with the times, below the lines of ended runs."""

    redraw_s = REDRAW_S
    rest_s = REDRAW_S / 2

    def __init__(self, console: Console, live: Live, order: Sequence[str]) -> None:
        super().__init__(lambda line: console.print(Text(line)), order)
        self._console = console
        self._live = live

    def show(self, what: str) -> None:
        self._now = what
        self._show_times()

    def begin(self, place: str, name: str, repeat: int) -> None:
        super().begin(place, name, repeat)
        self._show_times()

    def _show_times(self) -> None:
        self._live.update(Text(self._line(), style="dim"), refresh=True)

    def _write_result(self, run: Run) -> None:
        style = "red" if run.failure is not None else ""
        self._console.print(Text(describe_run(run, self._name), style=style))


def times(elapsed_s: float, left_s: float | None, rest: str = "about") -> str:
    """Returns ``elapsed 1:05, about 4:10 left``. left_s: None if it is not known. rest: the
    words before it."""
    elapsed = f"elapsed {clock(elapsed_s)}"
    return elapsed if left_s is None else f"{elapsed}, {rest} {clock(left_s)} left"


def clock(seconds: float) -> str:
    """``1:05`` for 65 seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def open_progress(stream: TextIO, order: Sequence[str]) -> Iterator[Progress]:
    """Yields the kind of progress that suits ``stream``."""
    if not stream.isatty():
        yield Progress(lambda line: print(line, file=stream, flush=True), order)
        return
    console = Console(file=stream)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield TerminalProgress(console, live, order)
