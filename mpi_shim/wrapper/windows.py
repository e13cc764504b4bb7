"""One-sided communication and files: requests whose waits can pause.

No status travels in them. ``Win.Wait`` and the requests of Rput, Rget and the like are
tested with pauses in between. With COSCHED_COLLECTIVES=nonblocking, fences and calls that
make or free a window wait at an Ibarrier first (see collectives/nonblocking.py). For that a
window keeps a communicator.

Limit: MPI has no non-blocking form of Start, Complete, Lock, Unlock and Flush. In these
calls, and in collective calls on files, a task waits as the library does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI as mpi

from mpi_shim.wrapper.requests.request import Request, with_our_request
from mpi_shim.wrapper.task.link import task

if TYPE_CHECKING:
    from typing_extensions import Self


class Win(mpi.Win):
    """mpi4py's Win, whose waits can pause."""

    gated = False  # whether collective calls wait at a barrier first, on all ranks
    _comm: mpi.Intracomm | None = None  # for that barrier

    def __new__(cls, win: mpi.Win | None = None) -> Self:
        self = super().__new__(cls, win)
        if isinstance(win, Win):
            self._comm = win._comm
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self:
            raise ValueError(f"cannot serialize '{type(self).__name__}' instance")
        return "WIN_NULL" if self is WIN_NULL else (type(self), ())

    def Wait(self) -> Literal[True]:
        task.wait(lambda: mpi.Win.Test(self), lambda: mpi.Win.Wait(self))
        return True

    def Test(self) -> bool:
        return task.look(lambda: mpi.Win.Test(self))

    @classmethod
    def Create(
        cls,
        memory: Any,
        disp_unit: int = 1,
        info: mpi.Info = mpi.INFO_NULL,
        comm: mpi.Intracomm = mpi.COMM_SELF,
    ) -> Self:
        return cls._made(
            comm, lambda: super(Win, cls).Create(memory, disp_unit, info, comm)
        )

    @classmethod
    def Allocate(
        cls,
        size: int,
        disp_unit: int = 1,
        info: mpi.Info = mpi.INFO_NULL,
        comm: mpi.Intracomm = mpi.COMM_SELF,
    ) -> Self:
        return cls._made(
            comm, lambda: super(Win, cls).Allocate(size, disp_unit, info, comm)
        )

    @classmethod
    def Allocate_shared(
        cls,
        size: int,
        disp_unit: int = 1,
        info: mpi.Info = mpi.INFO_NULL,
        comm: mpi.Intracomm = mpi.COMM_SELF,
    ) -> Self:
        return cls._made(
            comm, lambda: super(Win, cls).Allocate_shared(size, disp_unit, info, comm)
        )

    @classmethod
    def Create_dynamic(
        cls, info: mpi.Info = mpi.INFO_NULL, comm: mpi.Intracomm = mpi.COMM_SELF
    ) -> Self:
        return cls._made(comm, lambda: super(Win, cls).Create_dynamic(info, comm))

    @classmethod
    def _made(cls, comm: mpi.Intracomm, make: Callable[[], Self]) -> Self:
        if not (cls.gated and getattr(comm, "_wrapped", False)):
            return make()
        own, request = mpi.Intracomm.Idup(comm)
        Request(request).Wait()
        win = make()
        win._comm = own
        return win

    def _gate(self) -> None:
        if self._comm is not None:
            Request(mpi.Comm.Ibarrier(self._comm)).Wait()

    def Fence(self, assertion: int = 0) -> None:
        self._gate()
        super().Fence(assertion)

    def Free(self) -> None:
        self._gate()
        super().Free()
        if self._comm is not None:
            self._comm.Free()
            self._comm = None

    def free(self) -> None:
        if self:
            self.Free()


class File(mpi.File):
    """mpi4py's File, whose requests can be waited for with pauses."""

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self:
            raise ValueError(f"cannot serialize '{type(self).__name__}' instance")
        return "FILE_NULL" if self is FILE_NULL else (type(self), ())


for _name in ("Rput", "Rget", "Raccumulate", "Rget_accumulate"):
    setattr(Win, _name, with_our_request(getattr(mpi.Win, _name)))
for _kind in ("read", "write"):
    for _where in ("", "_all", "_at", "_at_all", "_shared"):
        _name = f"I{_kind}{_where}"
        setattr(File, _name, with_our_request(getattr(mpi.File, _name)))

WIN_NULL = Win(mpi.WIN_NULL)
FILE_NULL = File(mpi.FILE_NULL)
