"""Keeps virtual time: one heap of calls in a total order.

Calls that are due at the same moment are made by rank. Calls of the same rank are made in
the order of their requests. Two runs with the same input therefore do the same on any
machine, and random numbers come from seeded generators. Several domains can share one
engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from typing import Any, TypeAlias

#: Ranks: at one moment jobs end, then jobs are submitted, then decisions are made.
END, SUBMIT, DECIDE = 0, 1, 2

#: Calls made between two reports of progress.
PROGRESS_EVERY = 1_000

#: The time of an event that has not happened, in columns of times.
NEVER = -1

#: Receives how much of a run is done, from 0 to 1. It may raise to stop the run.
Progress: TypeAlias = Callable[[float], None]


def no_progress(_share: float) -> None:
    """Ignores the progress of a run."""


def part_of(progress: Progress, place: int, parts: int) -> Progress:
    """Returns the progress of one of several equal parts of a run. place: from 0."""
    return lambda share: progress((place + share) / parts)


class VirtualTime:
    """The clock and the heap."""

    __slots__ = ("_heap", "_requests", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self._requests = 0
        self._heap: list[tuple[int, int, int, Callable[[Any], None], Any]] = []

    def at(self, at_ns: int, rank: int, do: Callable[[Any], None], what: object) -> None:
        """Calls ``do(what)`` at a time that is not before ``now_ns``."""
        if at_ns < self.now_ns:
            raise ValueError(f"at {self.now_ns} ns something is asked for {at_ns} ns")
        heappush(self._heap, (at_ns, rank, self._requests, do, what))
        self._requests += 1

    def run(self, progress: Callable[[], None], until_ns: int | None = None) -> None:
        """Makes all calls, or those that are due by a time; calls ``progress()``, which may
        raise, from time to time."""
        heap = self._heap
        end_ns = inf if until_ns is None else until_ns
        while heap and heap[0][0] <= end_ns:
            progress()
            for _ in range(PROGRESS_EVERY):
                if not heap or heap[0][0] > end_ns:
                    break
                self.now_ns, _, _, do, what = heappop(heap)
                do(what)


def submit_in_order(
    engine: VirtualTime, submit_ns: Sequence[int], submit: Callable[[int], None]
) -> None:
    """Calls ``submit(index)`` at each of these ascending times.

    The heap holds one submission at a time, so it stays small however long the log is.
    """

    def submit_one(index: int) -> None:
        submit(index)
        index += 1
        if index < len(submit_ns):
            engine.at(submit_ns[index], SUBMIT, submit_one, index)

    if submit_ns:
        engine.at(submit_ns[0], SUBMIT, submit_one, 0)


class Decisions:
    """Calls ``decide()`` once a moment, after the jobs of that moment ended or arrived."""

    def __init__(self, engine: VirtualTime, decide: Callable[[], None]) -> None:
        self._engine = engine
        self._decide = decide
        self._due_ns = NEVER

    def request(self) -> None:
        """Asks for a decision at this moment."""
        now_ns = self._engine.now_ns
        if self._due_ns != now_ns:
            self._due_ns = now_ns
            self._engine.at(now_ns, DECIDE, self._run, None)

    def _run(self, _: None) -> None:
        self._due_ns = NEVER  # a job that ends at once needs another decision
        self._decide()
