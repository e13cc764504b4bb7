"""Links a rank to its node's agent by the page: boundaries, times, results.

A boundary without a change costs one call into C. A rank waits at a proposed boundary until
the agents have committed or withdrawn it. It cannot decide that by itself: other ranks may
stop there. If the agent ends, it ends the job's ranks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from cosched.core.cluster.resizing.change import Change, decode_change
from cosched.core.cluster.resizing.page_records import Pace, Result
from cosched.core.cluster.resizing.plan import Spot
from cosched.core.errors import CoschedError

try:
    from cosched.shm._native import ffi, lib
except ModuleNotFoundError:
    _SOURCES = Path(__file__).parents[1]
    raise CoschedError(
        f"{_SOURCES} is not built: keep the program in another folder than "
        f"{_SOURCES.parent}, or build it there: pip install -e {_SOURCES.parent}"
    ) from None
from cosched.shm.page import Page

#: The path of the page, set by the node's agent.
VARIABLE = "COSCHED_MALLEABLE"
#: A rank that waits looks for Ctrl-C this often.
_NAP_NS = 100_000_000


class Boundaries:
    """The link of one rank. waited_ns: the time of the last wait at a boundary."""

    def __init__(self, page: Page, waited_ns: Any = ffi.NULL) -> None:
        """Takes a slot of the page. Raises CoschedError if there is none. waited_ns: a
        ``const uint64_t *`` to the time in which the rank has waited in MPI, if that is
        measured."""
        self._page = page
        self._data = page.data
        self._slot = page.join(os.getpid())
        self._counter = waited_ns
        self._come_to = partial(lib.cosched_page_boundary, self._data, self._slot)
        self.waited_ns = 0

    @property
    def spot(self) -> Spot:
        """Where this rank runs."""
        return Spot(self._page.place, self._page.host)

    @property
    def measures_waits(self) -> bool:
        """Whether the shim measures how long this rank waits in MPI."""
        return bool(self._counter)

    @property
    def pace(self) -> Pace | None:
        """How fast this rank works; None while it is in no iteration."""
        return self._page.pace(self._slot)

    def enter(self, step: int, rank: int) -> None:
        """Makes this rank live, at the boundary that all ranks came to last."""
        lib.cosched_page_enter(self._data, self._slot, step, rank)

    def stops_at(self, step: int) -> bool:
        """Comes to a boundary; returns whether all ranks stop there for a change."""
        turn = self._come_to(step, self._counter)
        return turn != lib.COSCHED_PAGE_GO_ON and self._wait(step, turn)

    def _wait(self, step: int, turn: int) -> bool:
        since_ns = time.monotonic_ns()
        while turn == lib.COSCHED_PAGE_WAIT:
            turn = lib.cosched_page_wait(self._data, self._slot, step, _NAP_NS)
        self.waited_ns = time.monotonic_ns() - since_ns
        return bool(turn == lib.COSCHED_PAGE_CHANGE)

    def change(self) -> Change:
        """Returns the change to carry out. Raises Malformed."""
        return decode_change(self._page.order())

    def begin_last_change(self) -> None:
        """Lets the agent count no more on this rank."""
        lib.cosched_page_set_state(self._data, self._slot, lib.COSCHED_PAGE_LEAVING)

    def end_loop(self) -> None:
        """Lets the agent know that this rank comes to no further boundary."""
        lib.cosched_page_set_state(self._data, self._slot, lib.COSCHED_PAGE_ENDED)

    def leave(self) -> None:
        """Gives the slot back."""
        lib.cosched_page_leave(self._data, self._slot)

    def want(self, minimum: int, ideal: int) -> None:
        """Writes what the job wants, in nodes; for rank 0."""
        self._page.want(minimum, ideal)

    def predict(self, points: Sequence[tuple[int, int]]) -> None:
        """Writes what the program predicts; for rank 0."""
        self._page.predict(points)

    def ask(self, nodes: int) -> None:
        """Asks for a number of nodes; for rank 0."""
        lib.cosched_page_ask(self._data, nodes)

    def report(self, result: Result) -> None:
        """Reports a change; for rank 0."""
        self._page.report(result)


def unlinked(waited_ns: Any = ffi.NULL) -> Boundaries:
    """Returns boundaries at which no agent stops this rank: its times are measured all the
    same. waited_ns: as in Boundaries."""
    return Boundaries(Page.private(), waited_ns)


def link(environ: Mapping[str, str], waited_ns: Any = ffi.NULL) -> Boundaries | None:
    """Returns the link of this rank; None without an agent. waited_ns: as in Boundaries.
    Raises CoschedError if there is an agent, but no link to it."""
    path = environ.get(VARIABLE)
    if not path:
        return None
    try:
        return Boundaries(Page.open(Path(path)), waited_ns)
    except OSError as error:
        raise CoschedError(f"page {path}: {error.strerror}") from None
