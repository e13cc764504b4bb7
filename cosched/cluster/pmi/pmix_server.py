"""Runs libpmix's server and reports what the tasks ask of it.

libpmix calls back in a thread of its own. Each such call only puts a report into a queue
and rings a bell, which is a descriptor; the steward's thread takes the report from there.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from cosched.cluster.pmi.pmix_facts import Fact
from cosched.cluster.pmi.pmix_library import (
    ALL_RANKS,
    DONE,
    ERROR,
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    PmixLibrary,
)
from cosched.cluster.pmi.service import JobLayout

_BETWEEN_JOBS = "a connection between jobs"
_SPAWN = "MPI_Comm_spawn"
_GROUP = "a communicator made from a group (a PMIx group)"
_PARTIAL_FENCE = "a PMIx fence of some ranks on several nodes"


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence of all ranks. table: values that this node's tasks have put."""

    table: bytes
    callback: Any
    callback_data: Any


class Reports(Protocol):
    """Receives the reports of a server, in the steward's thread."""

    def task_connected(self, rank: int) -> None: ...
    def task_finalized(self, rank: int) -> None: ...
    def task_aborted(self, rank: int, status: int, message: str) -> None: ...
    def fence_reached(self, fence: Fence) -> None: ...
    def task_refused(self, rank: int, what: str) -> None: ...


class PmixServer:
    """libpmix's server in this process; there can be only one. bell: readable when there
    are reports to take."""

    def __init__(self, library: PmixLibrary, layout: JobLayout, reports: Reports) -> None:
        self._library = library
        self._ffi = library.ffi
        self._layout = layout
        self._reports = reports
        self._waiting: deque[Callable[[], None]] = deque()
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._tables: dict[int, Any] = {}  # libpmix reads them until it releases them
        self._last_table = 0
        self._release = self._ffi.callback("pmix_release_cbfunc_t", self._release_table)
        self._callbacks: dict[str, Any] = {}  # libpmix calls them until the end

    def start(self, facts: Sequence[Fact]) -> None:
        """Starts the server. Raises CoschedError if that fails."""
        self._callbacks = {
            "client_connected": self._callback("client_fn", self._connected),
            "client_finalized": self._callback("client_fn", self._finalized),
            "abort": self._callback("abort_fn", self._abort),
            "fence_nb": self._callback("fence_fn", self._fence),
            "direct_modex": self._callback("modex_fn", self._find),
            "publish": self._refusal("publish_fn", _BETWEEN_JOBS),
            "lookup": self._refusal("lookup_fn", _BETWEEN_JOBS),
            "unpublish": self._refusal("lookup_fn", _BETWEEN_JOBS),
            "connect": self._refusal("connect_fn", _BETWEEN_JOBS),
            "disconnect": self._refusal("connect_fn", _BETWEEN_JOBS),
            "spawn": self._refusal("spawn_fn", _SPAWN),
            "group": self._callback("group_fn", self._group),
            "log": self._ffi.callback("log_fn", self._log),
        }
        self._library.start_server(
            self._ffi.new("pmix_server_module_t *", self._callbacks), facts
        )

    def take_reports(self) -> None:
        """Passes on the reports that came since the last call."""
        try:
            os.eventfd_read(self.bell)
        except BlockingIOError:
            return
        while self._waiting:
            self._waiting.popleft()()

    def complete(self, fence: Fence, data: bytes) -> None:
        """Lets the tasks go on, with what all nodes' tasks have put."""
        self._last_table += 1
        table = self._ffi.new("char[]", data)
        self._tables[self._last_table] = table
        fence.callback(
            SUCCESS,
            table,
            len(data),
            fence.callback_data,
            self._release,
            self._ffi.cast("void *", self._last_table),
        )

    # --- in libpmix's thread --------------------------------------------------------------

    def _callback(self, c_type: str, function: Callable[..., int]) -> Any:
        return self._ffi.callback(c_type, function, error=ERROR)

    def _refusal(self, c_type: str, what: str) -> Any:
        return self._callback(c_type, partial(self._refuse, what))

    def _report(self, report: Callable[[], None]) -> None:
        self._waiting.append(report)
        os.eventfd_write(self.bell, 1)

    def _connected(self, task: Any, *_: Any) -> int:
        self._report(partial(self._reports.task_connected, task.rank))
        return DONE

    def _finalized(self, task: Any, *_: Any) -> int:
        self._report(partial(self._reports.task_finalized, task.rank))
        return DONE

    def _abort(self, task: Any, _object: Any, status: int, *_: Any) -> int:
        line = f"rank {task.rank} called MPI_Abort ({status})"
        self._report(partial(self._reports.task_aborted, task.rank, status & 0xFF, line))
        return DONE

    def _fence(
        self,
        tasks: Any,
        count: int,
        _infos: Any,
        _info_count: int,
        data: Any,
        size: int,
        callback: Any,
        callback_data: Any,
    ) -> int:
        ranks = {tasks[number].rank for number in range(count)}
        if ranks == {ALL_RANKS}:
            ranks = set(range(self._layout.size))
        if ranks.issubset(self._layout.ranks):
            return DONE
        if len(ranks) < self._layout.size:
            return self._refuse(_PARTIAL_FENCE, tasks)
        table = self._ffi.buffer(data, size)[:] if size else b""
        fence = Fence(table, callback, callback_data)
        self._report(partial(self._reports.fence_reached, fence))
        return SUCCESS

    def _find(self, *_: Any) -> int:
        """Answers a question for a value of another node's task: after a fence libpmix has
        all values itself."""
        return NOT_FOUND

    def _log(self, _task: Any, *more: Any) -> None:
        """Refuses a message, which the task then writes to its own standard error. libpmix
        holds a lock now, so the answer comes later."""
        callback, callback_data = more[-2:]
        self._report(partial(callback, NOT_SUPPORTED, callback_data))

    def _group(self, _operation: int, _name: Any, tasks: Any, *_: Any) -> int:
        return self._refuse(_GROUP, tasks)

    def _refuse(self, what: str, task: Any, *_: Any) -> int:
        rank = task.rank if task.rank < self._layout.size else self._layout.here.first
        self._report(partial(self._reports.task_refused, rank, what))
        return NOT_SUPPORTED

    def _release_table(self, number: Any) -> None:
        del self._tables[int(self._ffi.cast("uintptr_t", number))]
