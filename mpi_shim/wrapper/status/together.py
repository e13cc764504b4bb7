"""Makes the MPI calls that the shims of all ranks make together, over mpi4py.

``rules`` decides on them. The C interposer provides the same calls
(``interposer/status/together.c``), and both kinds of ranks can be in one job.
"""

from __future__ import annotations

import errno
from typing import Any

from mpi4py import MPI as mpi

from cosched.shm._native import ffi, lib
from mpi_shim.wrapper.status.rules import NO_LIMIT_MS, Rules
from mpi_shim.wrapper.status.shadow import Shadow
from mpi_shim.wrapper.task.environment import Environment, text
from mpi_shim.wrapper.task.link import Task, say, warn

#: How long a rank waits for the others to join.
PATIENCE_MS: int = lib.cosched_join_patience_ms(0)
#: How long a rank that may have failed waits for the others before it ends: mpi4py.run
#: calls MPI_Abort for such a job, but only after this.
FAREWELL_MS = 2000

_INT_BYTES = ffi.sizeof("int32_t")


class Together:
    """This rank among the others, once MPI is initialised."""

    def __init__(self, shadow: Shadow, task: Task, environment: Environment) -> None:
        self._shadow = shadow
        self._rules = Rules(
            _Calls(shadow, verbose=bool(environment.data.verbose)),
            task.link,
            environment,
            rank=mpi.COMM_WORLD.Get_rank(),
            world=mpi.COMM_WORLD.Get_size(),
            patience_ms=PATIENCE_MS,
            spawned=mpi.Comm.Get_parent() != mpi.COMM_NULL,
        )

    def open(self) -> None:
        """Joins the other ranks under COSCHED_STATUS=shadow. Collective."""
        self._shadow.prepare(mpi.COMM_WORLD.Get_size())
        if self._rules.open():
            self._shadow.start()

    def call_roll(self, presence: int) -> None:
        """Reports the nodes that do not coschedule the job, with this rank's presence.
        Collective."""
        self._rules.call_roll(presence)

    def close(self, limit_ms: int = NO_LIMIT_MS) -> None:
        """Sends no more, and receives all that was sent, before MPI ends. Collective. Gives
        up if the others take no part for ``limit_ms``."""
        self._shadow.stop()
        self._rules.close(limit_ms)

    def abandon(self) -> None:
        """Takes no part from now on: for a forked child, which is not the rank."""
        self._shadow.stop()
        self._rules.abandon()


class _Calls:
    """The calls of ``cosched/mpi_calls.h``, each in the method of its name."""

    def __init__(self, shadow: Shadow, *, verbose: bool) -> None:
        self._shadow = shadow
        self._is_verbose = verbose
        self._under_way: mpi.Request = mpi.REQUEST_NULL

    def __call__(self, name: str, *arguments: Any) -> int:
        try:
            return int(getattr(self, name)(*arguments) or 0)
        except mpi.Exception:
            return -errno.EIO

    # The service for names

    def publish(self, name: Any, port: Any) -> None:
        with _ErrorsReturned():
            mpi.Publish_name(text(name), text(port))

    def look_up(self, name: Any, port: Any) -> int:
        try:
            with _ErrorsReturned():
                found = mpi.Lookup_name(text(name))
        except mpi.Exception:
            return 0  # it is not published
        data = found.encode()[: lib.COSCHED_PORT_BYTES - 1] + b"\0"
        ffi.memmove(port, data, len(data))
        return 1

    def withdraw(self, name: Any) -> None:
        with _ErrorsReturned():
            mpi.Unpublish_name(text(name), "here")

    # The communicator of the shims

    def enter(self) -> None:
        self._shadow.comm, self._under_way = mpi.Comm.Idup(mpi.COMM_WORLD)

    def entered(self) -> None:
        self._shadow.comm.Set_errhandler(mpi.ERRORS_RETURN)

    def find_least(self, value: Any) -> None:
        room = [ffi.buffer(value, _INT_BYTES), mpi.INT]
        self._under_way = self._shadow.comm.Iallreduce(mpi.IN_PLACE, room, mpi.MIN)

    def gather(self, own: Any, everything: Any, size: int) -> None:
        comm = self._shadow.comm
        room = None
        if everything != ffi.NULL:
            room = [ffi.buffer(everything, size * comm.Get_size()), mpi.BYTE]
        self._under_way = comm.Igather([ffi.buffer(own, size), mpi.BYTE], room, 0)

    def meet(self) -> None:
        self._under_way = self._shadow.comm.Ibarrier()

    def sum_sent(self, due: Any) -> None:
        self._under_way = self._shadow.comm.Ireduce_scatter_block(
            self._shadow.sent_count, [ffi.buffer(due, _INT_BYTES), mpi.INT], mpi.SUM
        )

    def is_complete(self) -> bool:
        return self._under_way.Test()

    def receive(self) -> int:
        return self._shadow.listen()

    def leave(self) -> None:
        self._shadow.comm.Free()

    def end_job(self) -> None:
        mpi.COMM_WORLD.Abort(1)

    def print(self, kind: int, line: Any) -> None:
        if kind == lib.COSCHED_LINE_JOB:
            say(text(line))
        elif kind == lib.COSCHED_LINE_WARNING or self._is_verbose:
            warn(text(line))


class _ErrorsReturned:
    """A name that is not published is an error, which must not end the program."""

    def __enter__(self) -> None:
        self._comms = (mpi.COMM_WORLD, mpi.COMM_SELF)
        self._before = [comm.Get_errhandler() for comm in self._comms]
        for comm in self._comms:
            comm.Set_errhandler(mpi.ERRORS_RETURN)

    def __exit__(self, *_: object) -> None:
        for comm, handler in zip(self._comms, self._before, strict=True):
            comm.Set_errhandler(handler)
            handler.Free()
