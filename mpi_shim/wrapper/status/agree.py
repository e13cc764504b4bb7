"""Agrees with the other ranks of COMM_WORLD whether all have the shim, before any joins.

The protocol is in ``cosched/join.h``. The C interposer does the same
(``interposer/status/agree.c``), and the two understand each other.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mpi4py import MPI as mpi

from cosched.shm._native import ffi, lib

LEADER = 0
VERDICT = -1


class Agreement(enum.Enum):
    """All ranks have the shim; some lack it; or no service for names reaches all."""

    ALL = enum.auto()
    SOME = enum.auto()
    UNKNOWN = enum.auto()


def agree(job: Any, limit_s: float) -> Agreement:
    """Returns the same to each rank that has the shim. To be called after MPI_Init.

    job: the job's name, a C string. limit_s: how long the ranks look for each other.
    """
    rank, world = mpi.COMM_WORLD.Get_rank(), mpi.COMM_WORLD.Get_size()
    names = _Names(job)
    limit = ffi.new("struct cosched_join_limit *")
    if not lib.cosched_join_names_reach_all():
        return Agreement.UNKNOWN
    with _errors_returned():
        if not names.publish(rank, "here"):
            return Agreement.UNKNOWN
        lib.cosched_join_limit_start(limit, int(limit_s * 1e9))
        if rank == LEADER:
            return _lead(names, world, limit)
        return _follow(names, rank, world, limit)


def _lead(names: _Names, world: int, limit: Any) -> Agreement:
    for rank in range(1, world):
        while names.look_up(rank) is None:
            if lib.cosched_join_limit_is_over(limit):
                names.publish(VERDICT, "some")
                return Agreement.SOME
            lib.cosched_join_nap(world)
    return Agreement.ALL if names.publish(VERDICT, "all") else Agreement.SOME


def _follow(names: _Names, rank: int, world: int, limit: Any) -> Agreement:
    led = False
    while (verdict := names.look_up(VERDICT)) is None:
        led = led or names.look_up(LEADER) is not None
        if not led and lib.cosched_join_limit_is_over(limit):
            names.withdraw(rank)
            led = names.look_up(LEADER) is not None
            if not led:
                return Agreement.SOME
        lib.cosched_join_nap(world)
    return Agreement.ALL if verdict == "all" else Agreement.SOME


class _Names:
    """The names that this job's ranks publish."""

    def __init__(self, job: Any) -> None:
        self._job = job

    def publish(self, rank: int, port: str) -> bool:
        """Returns whether the MPI has published the name of a rank."""
        try:
            mpi.Publish_name(self._name(rank), port)
        except mpi.Exception:
            return False  # no service for names here
        return True

    def look_up(self, rank: int) -> str | None:
        """Returns the port of a rank's name; None if it is not published."""
        try:
            return mpi.Lookup_name(self._name(rank))
        except mpi.Exception:
            return None

    def withdraw(self, rank: int) -> None:
        try:
            mpi.Unpublish_name(self._name(rank), "here")
        except mpi.Exception:
            return  # it was not published, which is the same

    def _name(self, rank: int) -> str:
        name = ffi.new("char[]", lib.COSCHED_JOIN_NAME_BYTES)
        lib.cosched_join_name(name, self._job, rank)
        return bytes(ffi.string(name)).decode()


@contextmanager
def _errors_returned() -> Iterator[None]:
    """A name that is not published is an error, which must not end the program."""
    comms = (mpi.COMM_WORLD, mpi.COMM_SELF)
    before = [comm.Get_errhandler() for comm in comms]
    for comm in comms:
        comm.Set_errhandler(mpi.ERRORS_RETURN)
    try:
        yield
    finally:
        for comm, handler in zip(comms, before, strict=True):
            comm.Set_errhandler(handler)
            handler.Free()
