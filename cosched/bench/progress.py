"""How far a bench is: a live line on a terminal, else one line a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cosched.bench.arms import Arm
from cosched.bench.results import Run
from cosched.bench.table import describe_run

# The bench shares its CPUs with what it measures, so it redraws once a second.
BEAT_S = 1.0


class Progress(Protocol):
    """Hears of everything that happens in a bench."""

    @property
    def beat_s(self) -> float | None:
        """How often ``beat`` wants to be called while a run lasts."""

    def say(self, what: str) -> None:
        """Something begins that is no run."""

    def begin(self, number: int, total: int, arm: Arm, repeat: int) -> None:
        """A run begins."""

    def beat(self) -> None:
        """Time has passed."""

    def end(self, run: Run) -> None:
        """The run has ended."""


class LineProgress:
    """One line a run, for files and pipes."""

    beat_s = None

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._place = ""

    def say(self, what: str) -> None:
        self._write(what)

    def begin(self, number: int, total: int, arm: Arm, repeat: int) -> None:
        self._place = f"run {number}/{total}"

    def beat(self) -> None:
        """Nothing to redraw."""

    def end(self, run: Run) -> None:
        self._write(f"{self._place}  {describe_run(run)}")


class Estimate:
    """When a bench will be over, from how long each arm's runs have taken. Pure."""

    def __init__(self, order: Sequence[Arm]) -> None:
        self._left = list(order)
        self._taken: dict[Arm, list[float]] = {}

    def ended(self, arm: Arm, seconds: float) -> None:
        """The next run in order, of ``arm``, took ``seconds``."""
        self._left.remove(arm)
        self._taken.setdefault(arm, []).append(seconds)

    def left_s(self) -> float | None:
        """Seconds for all runs that have not ended; None before any has."""
        means = {arm: sum(taken) / len(taken) for arm, taken in self._taken.items()}
        if not means:
            return None
        usual = sum(means.values()) / len(means)
        return sum(means.get(arm, usual) for arm in self._left)


class TerminalProgress:
    """One live line with elapsed and estimated time; what has ended stays above it."""

    beat_s = BEAT_S

    def __init__(self, console: Console, live: Live, order: Sequence[Arm]) -> None:
        self._console = console
        self._live = live
        self._estimate = Estimate(order)
        self._begin_s = self._run_begin_s = time.monotonic()
        self._now = ""

    def say(self, what: str) -> None:
        self._now = what
        self.beat()

    def begin(self, number: int, total: int, arm: Arm, repeat: int) -> None:
        self._run_begin_s = time.monotonic()
        self._now = f"run {number}/{total}: {arm.value}, repeat {repeat}"
        self.beat()

    def beat(self) -> None:
        now_s = time.monotonic()
        line = f"{self._now}  elapsed {clock(now_s - self._begin_s)}"
        left_s = self._estimate.left_s()
        if left_s is not None:
            left_s = max(0.0, left_s - (now_s - self._run_begin_s))
            line += f", about {clock(left_s)} left"
        self._live.update(Text(line, style="dim"), refresh=True)

    def end(self, run: Run) -> None:
        self._estimate.ended(run.arm, time.monotonic() - self._run_begin_s)
        style = "red" if run.failure is not None else ""
        self._console.print(Text(describe_run(run), style=style))


def clock(seconds: float) -> str:
    """``1:05`` for 65 seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


@contextmanager
def open_progress(stream: TextIO, order: Sequence[Arm]) -> Iterator[Progress]:
    """The progress that suits ``stream``."""
    if not stream.isatty():
        yield LineProgress(lambda line: print(line, file=stream, flush=True))
        return
    console = Console(file=stream)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield TerminalProgress(console, live, order)
