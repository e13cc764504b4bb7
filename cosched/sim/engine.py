"""Virtual time: one heap of things to do, in a total order.

What is due at the same moment is done by rank, and inside a rank in the order in which
it was asked for. So two runs with the same input do the same in the same order, on any
machine; chance comes from generators that are given a seed. Several domains, and nodes
beside them, share one engine.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

#: Ranks: at one moment jobs end, then jobs are submitted, then decisions are made.
END, SUBMIT, DECIDE = 0, 1, 2

#: Things done between two calls of ``beat``.
BEAT_EVERY = 10_000


class Engine:
    """The clock and the heap."""

    __slots__ = ("_asked", "_heap", "done", "now_ns")

    def __init__(self) -> None:
        self.now_ns = 0
        self.done = 0  #: things done so far
        self._asked = 0
        self._heap: list[tuple[int, int, int, Callable[[Any], None], Any]] = []

    def at(self, at_ns: int, rank: int, do: Callable[[Any], None], what: object) -> None:
        """Calls ``do(what)`` at a time that is not before ``now_ns``."""
        if at_ns < self.now_ns:
            raise ValueError(f"at {self.now_ns} ns something is asked for {at_ns} ns")
        heappush(self._heap, (at_ns, rank, self._asked, do, what))
        self._asked += 1

    def run(self, beat: Callable[[], None]) -> None:
        """Does everything until nothing is left, with ``beat()`` every now and then.

        ``beat`` may raise to give the run up.
        """
        heap = self._heap
        while heap:
            beat()
            for _ in range(BEAT_EVERY):
                if not heap:
                    break
                self.now_ns, _, _, do, what = heappop(heap)
                do(what)
                self.done += 1
