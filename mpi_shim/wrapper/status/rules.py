"""Runs the rules of what the shims of all ranks do together: the join and the roll calls.

The rules are in C, once for both shims: ``cosched/join.h`` and ``cosched/roll.h``. They
call back for each MPI call that ``cosched/mpi_calls.h`` lists. This file needs no MPI.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.task.environment import Environment

NO_LIMIT_MS = (1 << 64) - 1
_STOPPED = -errno.ECANCELED


class Rules:
    """One rank's part in the join and in the roll calls.

    ``make_call``: gets the name of a member of ``struct cosched_mpi_calls`` and its
    arguments as C values, and returns its result. If it raises an error, the rules end
    their work, and the method below raises it. ``link``: the task's ``struct
    cosched_link``. ``rank`` and ``world``: those of COMM_WORLD. ``patience_ms``: how long
    the rank waits for the others. ``spawned``: other ranks have started these.
    """

    def __init__(
        self,
        make_call: Callable[..., int],
        link: Any,
        environment: Environment,
        *,
        rank: int,
        world: int,
        patience_ms: int,
        spawned: bool = False,
    ) -> None:
        self._make_call = make_call
        self._kept = link, environment  # C has only their addresses
        self._handle = ffi.new_handle(self)
        self._raised: BaseException | None = None
        self._join: Any = ffi.new("struct cosched_join *")
        self._roll: Any = ffi.new("struct cosched_roll *")
        join = self._join
        join.mpi, join.shim = _table, self._handle
        join.link, join.environment = link, environment.data
        join.rank, join.world, join.patience_ms = rank, world, patience_ms
        join.spawned, join.equipped = spawned, 1
        self._roll.join = join

    def open(self) -> bool:
        """Joins the other ranks, after MPI_Init. Collective. Returns whether the status may
        travel."""
        return bool(self._run(lib.cosched_join_open, self._join))

    def call_roll(self, presence: int) -> None:
        """Takes this rank's presence, after its registration or as it begins to wait for
        memory. Collective; a second call does nothing. With COSCHED_REQUIRE=all it ends the
        job if a node is absent."""
        self._run(lib.cosched_roll_call, self._roll, presence)

    def close(self, limit_ms: int) -> None:
        """Calls the roll again and frees the shims' communicator, before MPI ends.
        Collective. Gives up if the others take no part for ``limit_ms``."""
        self._run(lib.cosched_roll_close, self._roll, limit_ms)

    def abandon(self) -> None:
        """Takes no part from now on: for a forked child, which is not the rank."""
        self._join.stage = lib.COSCHED_JOIN_OUTSIDE

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        result = function(*arguments)
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        return result

    def call(self, name: str, *arguments: Any) -> int:
        """Makes one of the calls, for C. After an error all further calls fail, so that the
        rules come to their end."""
        if self._raised is None:
            try:
                return self._make_call(name, *arguments)
            except BaseException as error:  # noqa: BLE001  (_run raises it)
                self._raised = error
        return _STOPPED


def _make_table() -> Any:
    table = ffi.new("struct cosched_mpi_calls *")
    for name, _ in ffi.typeof("struct cosched_mpi_calls").fields:
        function = f"cosched_wrapper_{name}"
        ffi.def_extern(name=function, error=_STOPPED)(_forward(name))
        setattr(table, name, getattr(lib, function))
    return table


def _forward(name: str) -> Callable[..., int]:
    def call(shim: Any, *arguments: Any) -> int:
        rules: Rules = ffi.from_handle(shim)
        return rules.call(name, *arguments)

    return call


_table = _make_table()
