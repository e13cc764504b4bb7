"""Requests whose completion takes the status byte off and whose waits can pause.

``Request`` and ``Prequest`` add to mpi4py's own an ``Operation``, what is left to do
when they complete, and hold the user's memory until then. The class methods accept any
mixture of these and of mpi4py's own requests (of RMA, of files, generalised ones).

Every blocking form is the non-blocking one in a loop; see waiting.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from mpi4py import MPI as mpi

from mpi_shim.errors import UnprefixedMessageError, not_covered
from mpi_shim.operations import Operation, adopt_orphan
from mpi_shim.task import task
from mpi_shim.waiting import look, wait

if TYPE_CHECKING:
    from typing_extensions import Self

Statuses = list[mpi.Status]


class Request(mpi.Request):
    """mpi4py's Request, with what is left to do when it completes."""

    _operation: Operation | None = None
    _keep: object = None

    def __new__(cls, request: mpi.Request | None = None) -> Self:
        self = mpi.Request.__new__(cls, request)
        self._inherit(request)
        return self

    def _inherit(self, request: mpi.Request | None) -> None:
        """A copy of a request has the same left to do."""
        if isinstance(request, Request):
            self._operation, self._keep = request._operation, request._keep

    @classmethod
    def of(cls, request: mpi.Request, operation: Operation | None, keep: object) -> Self:
        """``request`` with ``operation`` to run when it completes."""
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
            wait(
                lambda: mpi.Request.Test(self, mine),
                lambda: mpi.Request.Wait(self, mine),
            )
        except mpi.Exception:
            _give_up(self)
            raise
        _settle(self, mine)
        return True

    def Test(self, status: mpi.Status | None = None) -> bool:
        mine = mpi.Status() if status is None else status
        try:
            done = mpi.Request.Test(self, mine)
        except mpi.Exception:
            _give_up(self)
            raise
        if done:
            _settle(self, mine)
        else:
            task.looked()
        return done

    def Get_status(self, status: mpi.Status | None = None) -> bool:
        done = look(lambda: mpi.Request.Get_status(self, status))
        if done and status is not None and self._operation is not None:
            self._operation.adjust(status)
        return done

    def wait(self, status: mpi.Status | None = None) -> Any:
        mine = mpi.Status() if status is None else status

        def poll() -> tuple[Any] | None:
            done, obj = mpi.Request.test(self, mine)
            return (obj,) if done else None

        with _Settling(self):
            found = wait(poll, lambda: (mpi.Request.wait(self, mine),))
        return _settle_objects([self], [mine], found or ())[0]

    def test(self, status: mpi.Status | None = None) -> tuple[bool, Any | None]:
        mine = mpi.Status() if status is None else status
        with _Settling(self):
            done, obj = mpi.Request.test(self, mine)
        if done:
            obj = _settle_objects([self], [mine], [obj])[0]
        else:
            task.looked()
        return done, obj

    def get_status(self, status: mpi.Status | None = None) -> bool:
        return self.Get_status(status)

    def Cancel(self) -> None:
        mpi.Request.Cancel(self)

    def cancel(self) -> None:
        self.Cancel()

    def Free(self) -> None:
        operation = self._operation
        mpi.Request.Free(self)
        if operation is not None:
            operation.release()
            if operation.active:
                adopt_orphan(operation)
        self._operation = self._keep = None

    def free(self) -> None:
        if self:
            self.Free()

    # Any of several

    @classmethod
    def Waitany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> int:
        return cls.waitany(requests, status)[0]

    @classmethod
    def Testany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool]:
        return cls.testany(requests, status)[:2]

    @classmethod
    def waitany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, Any]:
        mine = mpi.Status() if status is None else status

        def poll() -> tuple[int, Any] | None:
            index, done, obj = mpi.Request.testany(requests, mine)
            return (index, obj) if done else None

        with _Settling(*requests):
            found = wait(poll, lambda: mpi.Request.waitany(requests, mine))
        assert found is not None
        index, obj = found
        if index == mpi.UNDEFINED:
            return found
        return index, _settle_objects([requests[index]], [mine], [obj])[0]

    @classmethod
    def testany(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool, Any | None]:
        mine = mpi.Status() if status is None else status
        with _Settling(*requests):
            index, done, obj = mpi.Request.testany(requests, mine)
        if not done:
            task.looked()
        elif index != mpi.UNDEFINED:
            obj = _settle_objects([requests[index]], [mine], [obj])[0]
        return index, done, obj

    @classmethod
    def Get_status_any(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool]:
        index, done = mpi.Request.Get_status_any(requests, status)
        if not done:
            task.looked()
        if done and status is not None and index != mpi.UNDEFINED:
            _adjust(requests[index], status)
        return index, done

    @classmethod
    def get_status_any(
        cls, requests: Sequence[mpi.Request], status: mpi.Status | None = None
    ) -> tuple[int, bool]:
        return cls.Get_status_any(requests, status)

    # All of several

    @classmethod
    def Waitall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> Literal[True]:
        cls.waitall(requests, statuses)
        return True

    @classmethod
    def Testall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> bool:
        return cls.testall(requests, statuses)[0]

    @classmethod
    def waitall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[Any]:
        mine = _padded(statuses, len(requests))

        def poll() -> tuple[list[Any]] | None:
            done, objects = mpi.Request.testall(requests, mine)
            return (objects or [],) if done else None

        with _Settling(*requests, statuses=mine, caller=statuses):
            found = wait(poll, lambda: (mpi.Request.waitall(requests, mine),))
        assert found is not None
        return _settle_objects(requests, mine, found[0])

    @classmethod
    def testall(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> tuple[bool, list[Any] | None]:
        mine = _padded(statuses, len(requests))
        with _Settling(*requests, statuses=mine, caller=statuses):
            done, objects = mpi.Request.testall(requests, mine)
        if not done:
            task.looked()
            return False, None
        return True, _settle_objects(requests, mine, objects or [])

    @classmethod
    def Get_status_all(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> bool:
        done = look(lambda: mpi.Request.Get_status_all(requests, statuses))
        if done and statuses is not None:
            for request, status in zip(requests, statuses, strict=False):
                _adjust(request, status)
        return done

    @classmethod
    def get_status_all(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> bool:
        return cls.Get_status_all(requests, statuses)

    # Some of several

    @classmethod
    def Waitsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        return cls.waitsome(requests, statuses)[0]

    @classmethod
    def Testsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        return cls.testsome(requests, statuses)[0]

    @classmethod
    def waitsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        mine = _padded(statuses, len(requests))

        def poll() -> tuple[list[int] | None, list[Any] | None] | None:
            indices, objects = mpi.Request.testsome(requests, mine)
            # None: nothing to wait for; []: nothing has completed yet.
            return None if indices == [] else (indices, objects)

        with _Settling(*requests):
            found = wait(poll, lambda: mpi.Request.waitsome(requests, mine))
        assert found is not None
        return _settle_some(requests, mine, statuses, *found)

    @classmethod
    def testsome(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> tuple[list[int] | None, list[Any] | None]:
        mine = _padded(statuses, len(requests))
        with _Settling(*requests):
            indices, objects = mpi.Request.testsome(requests, mine)
        if indices == []:
            task.looked()
        return _settle_some(requests, mine, statuses, indices, objects)

    @classmethod
    def Get_status_some(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        indices = mpi.Request.Get_status_some(requests, statuses)
        if indices == []:
            task.looked()
        if statuses is not None:
            for index, status in zip(indices or [], statuses, strict=False):
                _adjust(requests[index], status)
        return indices

    @classmethod
    def get_status_some(
        cls, requests: Sequence[mpi.Request], statuses: Statuses | None = None
    ) -> list[int] | None:
        return cls.Get_status_some(requests, statuses)

    # Handles: what is left to do does not travel with them

    @classmethod
    def fromhandle(cls, handle: int) -> mpi.Request:
        return cls(_null_only(mpi.Request.fromhandle(handle), "Request.fromhandle"))

    @classmethod
    def fromint(cls, arg: int, /) -> mpi.Request:
        return cls(_null_only(mpi.Request.fromint(arg), "Request.fromint"))

    @classmethod
    def f2py(cls, arg: int) -> mpi.Request:
        return cls(_null_only(mpi.Request.f2py(arg), "Request.f2py"))


# mpi4py's class comes first, because only the foremost extension type can make the
# object; it defines none of the methods that Request replaces.
class Prequest(mpi.Prequest, Request):
    """mpi4py's Prequest; each start sends the status of that moment."""

    def __new__(cls, request: mpi.Request | None = None) -> Self:
        self = mpi.Prequest.__new__(cls, request)
        self._inherit(request)
        return self

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


class _Settling:
    """Around a call on several requests that may fail: after an MPI error, those that
    completed all the same are settled, the others that are gone give back their memory,
    and the caller's list of statuses says which is which."""

    def __init__(
        self,
        *requests: mpi.Request,
        statuses: Statuses | None = None,
        caller: Statuses | None = None,
    ) -> None:
        self._requests, self._statuses, self._caller = requests, statuses, caller

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._statuses is not None:
            _extend(self._caller, self._statuses)
        if kind is None or not issubclass(kind, mpi.Exception):
            return
        for i, request in enumerate(self._requests):
            if self._statuses is None or self._statuses[i].error:
                _give_up(request)
            elif not request:
                _settle(request, self._statuses[i])


def _give_up(request: mpi.Request) -> None:
    """After an MPI error: a request that is gone gives back its memory."""
    if request or not isinstance(request, Request):
        return
    operation = request._operation
    request._operation = request._keep = None
    if operation is not None:
        operation.active = False
        operation.release()


def _settle(request: mpi.Request, status: mpi.Status) -> None:
    """Does what was left to do for a request that completed."""
    if not isinstance(request, Request):
        return
    operation = request._operation
    if not request:
        request._operation = request._keep = None
    if operation is not None:
        operation.complete(status)


def _settle_objects(
    requests: Sequence[mpi.Request],
    statuses: Sequence[mpi.Status],
    objects: Iterable[Any],
) -> list[Any]:
    """Settles each; the objects they brought, or those that mpi4py found."""
    operations = [getattr(request, "_operation", None) for request in requests]
    foreign: UnprefixedMessageError | None = None
    for request, status in zip(requests, statuses, strict=False):
        try:
            _settle(request, status)
        except UnprefixedMessageError as error:
            foreign = error
    if foreign is not None:
        raise foreign
    return [
        obj if operation is None else operation.result
        for operation, obj in zip(operations, objects, strict=False)
    ]


def _settle_some(
    requests: Sequence[mpi.Request],
    mine: Statuses,
    statuses: Statuses | None,
    indices: list[int] | None,
    objects: list[Any] | None,
) -> tuple[list[int] | None, list[Any] | None]:
    if indices is None:
        return None, None
    found = mine[: len(indices)]
    _extend(statuses, found)
    return indices, _settle_objects([requests[i] for i in indices], found, objects or [])


def _adjust(request: mpi.Request, status: mpi.Status) -> None:
    operation: Operation | None = getattr(request, "_operation", None)
    if operation is not None:
        operation.adjust(status)


def _padded(statuses: Statuses | None, count: int) -> Statuses:
    """``count`` statuses, the caller's first."""
    mine = list(statuses or ())
    return mine + [mpi.Status() for _ in range(len(mine), count)]


def _extend(statuses: Statuses | None, mine: Statuses) -> None:
    """The caller's list grows to hold all statuses, as mpi4py lets it."""
    if isinstance(statuses, list):
        statuses.extend(mine[len(statuses) :])


def _null_only(request: mpi.Request, what: str) -> mpi.Request:
    if request and task.prefix:
        raise not_covered(
            what,
            "keep the request object, or use mpi4py.MPI.Request for a request of "
            "another library",
        )
    return request
