"""Makes requests whose end removes the status byte and whose waits can pause.

``Request``, ``Prequest`` and ``Grequest`` add an ``Operation`` to mpi4py's own classes: the
work that is left when they complete. They hold the user's memory until then. The requests
of collective calls, one-sided calls and files get these classes as well, with no work left,
so that waiting for them can pause.

Each blocking form is the non-blocking one in a loop with pauses (``Task.wait``).
multiple.py has the any, all and some forms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from mpi4py import MPI as mpi

from mpi_shim.wrapper.requests.completion import (
    CleanUp,
    Pending,
    complete,
    complete_all,
    drop_failed,
)
from mpi_shim.wrapper.requests.multiple import MultipleRequests
from mpi_shim.wrapper.requests.operations import Operation, adopt_orphan
from mpi_shim.wrapper.task.link import task

if TYPE_CHECKING:
    from typing_extensions import Self


class Request(Pending, MultipleRequests):
    """mpi4py's Request: a wait pauses between two tests, and a request that completes does
    the work that is left."""

    _theirs: ClassVar[type[mpi.Request]] = mpi.Request

    def __new__(cls, request: mpi.Request | None = None) -> Self:
        """Makes a request; a copy of a request has the same work left."""
        self: Self = cls._theirs.__new__(cls, request)
        if isinstance(request, Pending):
            self._operation, self._keep = request._operation, request._keep
            self._exported = request._exported
        return self

    @classmethod
    def of(cls, request: mpi.Request, operation: Operation | None, keep: object) -> Self:
        """Returns ``request`` with ``operation`` to run when it completes."""
        self = cls(request)
        self._operation, self._keep = operation, keep
        return self

    def __reduce__(self) -> str | tuple[Any, ...]:
        if self:
            raise ValueError(f"cannot serialize '{type(self).__name__}' instance")
        return "REQUEST_NULL" if self is REQUEST_NULL else (type(self), ())

    # One request

    def Wait(self, status: mpi.Status | None = None) -> Literal[True]:
        mine = mpi.Status() if status is None else status
        try:
            task.wait(
                lambda: mpi.Request.Test(self, mine), lambda: mpi.Request.Wait(self, mine)
            )
        except mpi.Exception:
            drop_failed(self)
            raise
        complete(self, mine)
        return True

    def Test(self, status: mpi.Status | None = None) -> bool:
        mine = mpi.Status() if status is None else status
        try:
            done = mpi.Request.Test(self, mine)
        except mpi.Exception:
            drop_failed(self)
            raise
        if done:
            complete(self, mine)
        else:
            task.looked()
        return done

    def Get_status(self, status: mpi.Status | None = None) -> bool:
        done = task.look(lambda: mpi.Request.Get_status(self, status))
        if done and status is not None and self._operation is not None:
            self._operation.adjust(status)
        return done

    def wait(self, status: mpi.Status | None = None) -> Any:
        mine = mpi.Status() if status is None else status

        def poll() -> tuple[Any] | None:
            done, obj = mpi.Request.test(self, mine)
            return (obj,) if done else None

        with CleanUp(self):
            found = task.wait(poll, lambda: (mpi.Request.wait(self, mine),))
        return complete_all([self], [mine], found or ())[0]

    def test(self, status: mpi.Status | None = None) -> tuple[bool, Any | None]:
        mine = mpi.Status() if status is None else status
        with CleanUp(self):
            done, obj = mpi.Request.test(self, mine)
        if done:
            obj = complete_all([self], [mine], [obj])[0]
        else:
            task.looked()
        return done, obj

    get_status = Get_status

    def Free(self) -> None:
        operation = self._operation
        mpi.Request.Free(self)
        if operation is not None:
            operation.release()
            if operation.active:
                adopt_orphan(operation)
        self._is_over()

    def free(self) -> None:
        if self:
            self.Free()


# mpi4py's class comes first, because only the first extension type can make the object. It
# defines none of the methods that Request replaces.
class Prequest(mpi.Prequest, Request):
    """mpi4py's Prequest; each start sends the status of that moment."""

    _theirs = mpi.Prequest

    def __new__(cls, request: mpi.Request | None = None) -> Self:
        return Request.__new__(cls, request)

    def Start(self) -> None:
        if self._operation is not None:
            self._operation.start()
        mpi.Prequest.Start(self)

    @classmethod
    def Startall(cls, requests: list[mpi.Prequest]) -> None:
        for request in requests:
            if isinstance(request, Request) and request._operation is not None:
                request._operation.start()
        mpi.Prequest.Startall(requests)


REQUEST_NULL = Request(mpi.REQUEST_NULL)


class Grequest(mpi.Grequest, Request):
    """mpi4py's Grequest, whose waits can pause."""

    _theirs = mpi.Grequest

    def __new__(cls, request: mpi.Request | None = None) -> Self:
        return Request.__new__(cls, request)

    @classmethod
    def Start(cls, *args: Any, **kwargs: Any) -> Grequest:
        return cls(mpi.Grequest.Start(*args, **kwargs))


def with_our_request(raw: Callable[..., mpi.Request]) -> Callable[..., Any]:
    """Makes ``raw`` return its request in the wrapper's class."""

    @functools.wraps(raw)
    def call(*args: Any, **kwargs: Any) -> mpi.Request:
        request = raw(*args, **kwargs)
        return Prequest(request) if isinstance(request, mpi.Prequest) else Request(request)

    return call
