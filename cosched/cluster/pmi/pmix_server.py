"""Runs libpmix's server and reports what the tasks ask of it.

libpmix calls back in a thread of its own. Each such call only puts a report into a queue
and rings a bell, which is a descriptor; the steward's thread takes the report from there.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from cosched.cluster.pmi.pmix_facts import Fact
from cosched.cluster.pmi.pmix_library import (
    DONE,
    DUPLICATE,
    ERROR,
    NOT_FOUND,
    NOT_LAUNCHED,
    NOT_SUPPORTED,
    SUCCESS,
    PmixLibrary,
)
from cosched.cluster.pmi.pmix_values import (
    connects,
    is_set,
    read_infos,
    read_members,
    read_programs,
    read_published,
    read_text,
    read_texts,
    write_published,
)
from cosched.cluster.pmi.service import JobLayout
from cosched.core.cluster.startup.questions import (
    Lookup,
    Question,
    RootAnswer,
    Spawn,
    Unpublish,
    WorldRanks,
)
from cosched.core.errors import CoschedError

_GROUP = "a communicator made from a group (a PMIx group)"
#: The rank of no task.
_NO_RANK = 0xFFFFFFFF

Take = Callable[[RootAnswer], None]


@dataclass(frozen=True, slots=True)
class Reply:
    """Where libpmix waits for bytes."""

    callback: Any  #: libpmix's function
    callback_data: Any  #: for that function


@dataclass(frozen=True, slots=True)
class Fence:
    """A fence."""

    table: bytes  #: values that this node's tasks have put
    reply: Reply  #: where the tables of all nodes go


class Reports(Protocol):
    """Receives the reports of a server, in the steward's thread."""

    def task_connected(self, rank: int) -> None: ...
    def task_finalized(self, rank: int) -> None: ...
    def task_aborted(self, rank: int, status: int, message: str) -> None: ...
    def fence_reached(self, fence: Fence) -> None: ...
    def members_fenced(self, members: tuple[WorldRanks, ...], fence: Fence) -> None: ...
    def members_connected(
        self, members: tuple[WorldRanks, ...], done: Callable[[int], None]
    ) -> None: ...
    def members_disconnected(
        self, members: tuple[WorldRanks, ...], done: Callable[[int], None]
    ) -> None: ...
    def values_wanted(self, world: int, rank: int, reply: Reply) -> None: ...
    def task_asked(self, rank: int, question: Question, take: Take) -> None: ...
    def task_refused(self, rank: int, what: str) -> None: ...


class _Reading:
    """Collects the values of several tasks."""

    def __init__(
        self, ranks: Collection[int], take: Callable[[Mapping[int, bytes]], None]
    ) -> None:
        self._missing = len(ranks)
        self._found: dict[int, bytes] = {}
        self._take = take

    def add(self, rank: int, data: bytes | None) -> None:
        """Adds the values of a task; None if it has put none."""
        self._missing -= 1
        if data is not None:
            self._found[rank] = data
        if self._missing == 0:
            self._take(self._found)


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
        self._readings: dict[int, Callable[[bytes | None], None]] = {}
        self._last_reading = 0
        self._on_values = self._ffi.callback("pmix_dmodex_response_fn_t", self._values)
        self._release = self._ffi.callback("pmix_release_cbfunc_t", self._release_table)
        self._callbacks: dict[str, Any] = {}  # libpmix calls them until the end
        self._on_forgotten: Any = None  # libpmix calls it, too

    def start(self, facts: Sequence[Fact]) -> None:
        """Starts the server. Raises CoschedError if that fails."""
        self._callbacks = {
            "client_connected": self._callback("client_fn", self._connected),
            "client_finalized": self._callback("client_fn", self._finalized),
            "abort": self._callback("abort_fn", self._abort),
            "fence_nb": self._callback("fence_fn", self._fence),
            "direct_modex": self._callback("modex_fn", self._find),
            "publish": self._callback("publish_fn", self._publish),
            "lookup": self._callback("lookup_fn", self._look_up),
            "unpublish": self._callback("unpublish_fn", self._unpublish),
            "connect": self._callback("connect_fn", self._connect),
            "disconnect": self._callback("connect_fn", self._disconnect),
            "spawn": self._callback("spawn_fn", self._spawn),
            "group": self._callback("group_fn", self._group),
            "job_control": self._callback("control_fn", self._control),
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

    def complete(self, reply: Reply, data: bytes | None) -> None:
        """Gives bytes to libpmix; None if there are none."""
        if data is None:
            reply.callback(
                NOT_FOUND, self._ffi.NULL, 0, reply.callback_data, *(self._ffi.NULL,) * 2
            )
            return
        self._last_table += 1
        table = self._ffi.new("char[]", data) if data else self._ffi.NULL
        self._tables[self._last_table] = table
        reply.callback(
            SUCCESS,
            table,
            len(data),
            reply.callback_data,
            self._release,
            self._ffi.cast("void *", self._last_table),
        )

    def read_values(
        self, ranks: Collection[int], take: Callable[[Mapping[int, bytes]], None]
    ) -> None:
        """Reads what tasks of this node have put for others, and calls ``take`` with it."""
        reading = _Reading(ranks, take)
        for rank in ranks:
            self._last_reading += 1
            self._readings[self._last_reading] = partial(reading.add, rank)
            self._library.read_values(
                self._layout.space, rank, self._on_values, self._last_reading
            )

    def forget_tasks(self, within_s: float) -> None:
        """Makes libpmix remove the files that this node's tasks registered for that. Waits
        for it no longer than ``within_s``: its thread may wait for ever."""
        forgotten = threading.Semaphore(0)
        self._on_forgotten = self._ffi.callback(
            "pmix_op_cbfunc_t", lambda *_: forgotten.release()
        )
        for rank in self._layout.ranks:
            self._library.forget_task(self._layout.space, rank, self._on_forgotten)
        deadline = time.monotonic() + within_s
        for _ in self._layout.ranks:
            if not forgotten.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return

    # --- in libpmix's thread --------------------------------------------------------------

    def _callback(self, c_type: str, function: Callable[..., int]) -> Any:
        return self._ffi.callback(c_type, function, error=ERROR)

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
        *reply: Any,
    ) -> int:
        try:
            members = read_members(self._layout, tasks, count)
        except CoschedError as error:
            return self._refuse(tasks.rank, str(error))
        layout = self._layout
        ranks = members[0].ranks or tuple(range(layout.size))
        is_own = [each.world for each in members] == [layout.world]
        if is_own and set(ranks).issubset(layout.ranks):
            return DONE
        table = self._ffi.buffer(data, size)[:] if size else b""
        fence = Fence(table, Reply(*reply))
        if is_own and len(ranks) == layout.size:
            self._report(partial(self._reports.fence_reached, fence))
        else:
            self._report(partial(self._reports.members_fenced, members, fence))
        return SUCCESS

    def _connect(self, *given: Any) -> int:
        return self._bring_together(self._reports.members_connected, *given)

    def _disconnect(self, *given: Any) -> int:
        return self._bring_together(self._reports.members_disconnected, *given)

    def _bring_together(
        self,
        report: Callable[[tuple[WorldRanks, ...], Callable[[int], None]], None],
        tasks: Any,
        count: int,
        _infos: Any,
        _info_count: int,
        callback: Any,
        data: Any,
    ) -> int:
        try:
            members = read_members(self._layout, tasks, count)
        except CoschedError as error:
            return self._refuse(tasks.rank, str(error))
        self._report(partial(report, members, lambda status: callback(status, data)))
        return SUCCESS

    def _find(self, task: Any, _infos: Any, _count: int, *reply: Any) -> int:
        """Answers a question for a value of another node's task. After a fence libpmix has
        all values of this world itself."""
        try:
            world = self._layout.world_of(read_text(task.nspace))
        except CoschedError:
            return NOT_FOUND
        if world == self._layout.world:
            return NOT_FOUND
        self._report(partial(self._reports.values_wanted, world, task.rank, Reply(*reply)))
        return SUCCESS

    def _values(self, status: int, data: Any, size: int, number: Any) -> None:
        take = self._readings.pop(int(self._ffi.cast("uintptr_t", number)))
        found = self._ffi.buffer(data, size)[:] if status == SUCCESS and size else None
        self._report(partial(take, found))

    # --- questions ------------------------------------------------------------------------

    def _ask(self, task: Any, question: Question, take: Take) -> int:
        self._report(partial(self._reports.task_asked, task.rank, question, take))
        return SUCCESS

    def _spawn(
        self,
        task: Any,
        _infos: Any,
        _info_count: int,
        apps: Any,
        count: int,
        callback: Any,
        data: Any,
    ) -> int:
        def answered(answer: RootAnswer) -> None:
            if answer.error:
                callback(NOT_LAUNCHED, self._ffi.NULL, data)
            else:
                space = self._layout.space_of(int(answer.value))
                callback(SUCCESS, self._ffi.new("char[]", space.encode()), data)

        programs = read_programs(apps, count)
        return self._ask(task, Spawn(programs, {}, connects(programs)), answered)

    def _publish(self, task: Any, infos: Any, count: int, callback: Any, data: Any) -> int:
        try:
            question = read_published(read_infos(infos, count))
        except CoschedError as error:
            return self._refuse(task.rank, str(error))
        return self._ask(
            task,
            question,
            lambda answer: callback(DUPLICATE if answer.error else SUCCESS, data),
        )

    def _look_up(
        self, task: Any, keys: Any, infos: Any, count: int, callback: Any, data: Any
    ) -> int:
        names = list(read_texts(keys))
        if len(names) != 1:
            return self._refuse(task.rank, "a look-up of several names at once")
        asker: Any = self._ffi.new("pmix_proc_t *")
        asker.nspace, asker.rank = self._ffi.string(task.nspace), _NO_RANK

        def answered(answer: RootAnswer) -> None:
            if answer.error:
                callback(NOT_FOUND, self._ffi.NULL, 0, data)
            else:
                found, _kept = write_published(asker[0], names[0], answer.value)
                callback(SUCCESS, found, 1, data)

        wait = is_set(read_infos(infos, count), "pmix.wait")
        return self._ask(task, Lookup(names[0], wait), answered)

    def _unpublish(
        self, task: Any, keys: Any, _infos: Any, _count: int, callback: Any, data: Any
    ) -> int:
        names = list(read_texts(keys))
        if len(names) != 1:
            return self._refuse(task.rank, "the removal of several names at once")
        return self._ask(
            task,
            Unpublish(names[0]),
            lambda answer: callback(NOT_FOUND if answer.error else SUCCESS, data),
        )

    def _log(self, _task: Any, *more: Any) -> None:
        """Refuses a message, which the task then writes to its own standard error. libpmix
        holds a lock now, so the answer comes later."""
        callback, callback_data = more[-2:]
        self._report(partial(callback, NOT_SUPPORTED, callback_data))

    def _control(self, *_: Any) -> int:
        """Refuses to control jobs. libpmix keeps by itself which files a task wants removed
        at its end, but only for a server that has this function."""
        return NOT_SUPPORTED

    def _group(self, _operation: int, _name: Any, tasks: Any, *_: Any) -> int:
        return self._refuse(tasks.rank, _GROUP)

    def _refuse(self, rank: int, what: str) -> int:
        known = rank if rank < self._layout.size else self._layout.here.first
        self._report(partial(self._reports.task_refused, known, what))
        return NOT_SUPPORTED

    def _release_table(self, number: Any) -> None:
        del self._tables[int(self._ffi.cast("uintptr_t", number))]
