"""Makes windows and files whose waits can pause (one-sided communication).

No status travels in them. ``Win.Wait`` and the requests of Rput, Rget and the like are
tested with pauses in between. With COSCHED_COLLECTIVES=nonblocking, fences and calls that
make or free a window wait at an Ibarrier first (collectives/by_nonblocking.py). For that a
window keeps a communicator.

Limit: MPI has no non-blocking form of Start, Complete, Lock, Unlock and Flush. In these
calls, and in collective calls on files, a task waits as the library does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI as mpi

from mpi_shim.wrapper.requests.request import Request, with_our_request
from mpi_shim.wrapper.task.link import task

if TYPE_CHECKING:
    from typing_extensions import Self


def _maker(name: str, comm_place: int) -> Any:
    """Returns a class method that makes a window. ``comm_place``: the place of its argument
    ``comm``."""

    @functools.wraps(getattr(mpi.Win, name))
    def call(cls: type[Win], *args: Any, **kwargs: Any) -> Win:
        make: Callable[..., Win] = getattr(super(Win, cls), name)
        comm: Any = args[comm_place] if len(args) > comm_place else kwargs.get("comm")
        if not (cls.gated and getattr(comm, "_wrapped", False)):
            return make(*args, **kwargs)
        own, request = mpi.Intracomm.Idup(comm)
        Request(request).Wait()
        win = make(*args, **kwargs)
        win._comm = own
        return win

    return classmethod(call)


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

    Create = _maker("Create", 3)
    Allocate = _maker("Allocate", 3)
    Allocate_shared = _maker("Allocate_shared", 3)
    Create_dynamic = _maker("Create_dynamic", 1)

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
