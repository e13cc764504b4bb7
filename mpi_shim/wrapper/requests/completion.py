"""What is left of a request when it is over: the status byte to take off, memory to give
back, an object to hand out.

``Pending`` is what the wrapper adds to a request of mpi4py's. The functions accept any
mixture of the wrapper's requests and mpi4py's own (of another library), which have
nothing left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper.errors import UnprefixedMessageError
from mpi_shim.wrapper.requests.handles import HandleTable
from mpi_shim.wrapper.requests.operations import Operation

Statuses = list[mpi.Status]


class Pending:
    """The wrapper's half of a request. ``_keep``: the user's memory, until it is over;
    ``_exported``: the handle by which the program may find it again, or None."""

    _operation: Operation | None = None
    _keep: object = None
    _exported: int | None = None

    def _is_over(self) -> None:
        if self._exported is not None:
            exported_requests.drop(self._exported)
        self._operation = self._keep = self._exported = None


exported_requests: HandleTable[Pending] = HandleTable()


class Settling:
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
            extend(self._caller, self._statuses)
        if kind is None or not issubclass(kind, mpi.Exception):
            return
        for i, request in enumerate(self._requests):
            if self._statuses is None or self._statuses[i].error:
                give_up(request)
            elif not request:
                settle(request, self._statuses[i])


def give_up(request: mpi.Request) -> None:
    """After an MPI error: a request that is gone gives back its memory."""
    if request or not isinstance(request, Pending):
        return
    operation = request._operation
    request._is_over()
    if operation is not None:
        operation.active = False
        operation.release()


def settle(request: mpi.Request, status: mpi.Status) -> None:
    """Does what was left to do for a request that completed."""
    if not isinstance(request, Pending):
        return
    operation = request._operation
    if not request:
        request._is_over()
    if operation is not None:
        operation.complete(status)


def settle_objects(
    requests: Sequence[mpi.Request],
    statuses: Sequence[mpi.Status],
    objects: Iterable[Any],
) -> list[Any]:
    """Settles each; the objects they brought, or those that mpi4py found."""
    operations = [getattr(request, "_operation", None) for request in requests]
    foreign: UnprefixedMessageError | None = None
    for request, status in zip(requests, statuses, strict=False):
        try:
            settle(request, status)
        except UnprefixedMessageError as error:
            foreign = error
    if foreign is not None:
        raise foreign
    return [
        obj if operation is None else operation.result(obj)
        for operation, obj in zip(operations, objects, strict=False)
    ]


def settle_some(
    requests: Sequence[mpi.Request],
    mine: Statuses,
    statuses: Statuses | None,
    indices: list[int] | None,
    objects: list[Any] | None,
) -> tuple[list[int] | None, list[Any] | None]:
    """Settles those at ``indices``, whose statuses come first in ``mine``."""
    if indices is None:
        return None, None
    found = mine[: len(indices)]
    extend(statuses, found)
    return indices, settle_objects([requests[i] for i in indices], found, objects or [])


def adjust(request: mpi.Request, status: mpi.Status) -> None:
    """Corrects the status of a request that completed and was only looked at."""
    operation: Operation | None = getattr(request, "_operation", None)
    if operation is not None:
        operation.adjust(status)


def padded(statuses: Statuses | None, count: int) -> Statuses:
    """``count`` statuses, the caller's first."""
    mine = list(statuses or ())
    return mine + [mpi.Status() for _ in range(len(mine), count)]


def extend(statuses: Statuses | None, mine: Statuses) -> None:
    """The caller's list grows to hold all statuses, as mpi4py lets it."""
    if isinstance(statuses, list):
        statuses.extend(mine[len(statuses) :])
