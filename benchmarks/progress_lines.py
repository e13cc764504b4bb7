"""Shows the progress of a benchmark: a bar on a terminal, lines in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Event, Thread
from time import monotonic
from typing import TypeVar

from rich.console import Console
from rich.progress import Progress

from cosched.bench.run.progress import LINE_S, times

T = TypeVar("T")
#: Takes how much of the work is done, and the name of the part that is under way.
Show = Callable[[float, str], None]


@dataclass
class UnderWay:
    """Work that is under way. Pure: callers give the time in seconds."""

    total: float  #: all of the work
    began_s: float  #: when it began
    what: str = ""  #: the name of its present part
    done: float = 0.0  #: how much is done
    noted_s: float = 0.0  #: when that was done

    def note(self, done: float, what: str, now_s: float) -> None:
        """Notes what is done now, and what is under way."""
        self.done, self.what, self.noted_s = done, what, now_s

    def line(self, done: str, now_s: float) -> str:
        """Returns what is under way, with the times. done: how much is done, in words."""
        left_s = None
        if self.done:
            whole_s = (self.noted_s - self.began_s) * self.total / self.done
            left_s = max(0.0, whole_s - (now_s - self.began_s))
        return f"{self.what}: {done}, {times(now_s - self.began_s, left_s)}"


@contextmanager
def counted_steps(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Yields a function that counts one of ``total`` steps; any thread may call it."""
    steps = count(1)
    with _shown(total, lambda done: f"{done:.0f} of {total} done") as show:
        show(0, what)
        yield lambda: show(next(steps), what)


def steps_of(items: Collection[T], what: str) -> Iterator[T]:
    """Yields each item, and counts it as a step when the caller is done with it."""
    with counted_steps(what, len(items)) as advance:
        for item in items:
            yield item
            advance()


@contextmanager
def shown_share() -> Iterator[Show]:
    """Yields a function that takes the share that is done, and the name of what comes
    next."""
    with _shown(1.0, lambda done: f"{done:.0%} done") as show:
        yield show


@contextmanager
def _shown(total: float, words: Callable[[float], str]) -> Iterator[Show]:
    """Shows the progress of the block on standard error. words: of how much is done."""
    if sys.stderr.isatty():
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda done, what: bar.update(task, completed=done, description=what)
        return
    work = UnderWay(total, monotonic())

    def write() -> None:
        print(work.line(words(work.done), monotonic()), file=sys.stderr, flush=True)

    with repeated(write, LINE_S):
        yield lambda done, what: work.note(done, what, monotonic())


@contextmanager
def repeated(act: Callable[[], None], each_s: float) -> Iterator[None]:
    """Calls ``act`` every ``each_s`` seconds during the block. Another thread calls it,
    because a step of a benchmark may last long."""
    ended = Event()

    def repeat() -> None:
        while not ended.wait(each_s):
            act()

    thread = Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
