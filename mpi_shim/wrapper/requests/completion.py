"""Completes requests: removes status bytes, gives memory back, returns received objects.

``Pending`` is what the wrapper adds to a request of mpi4py. The functions accept any
mixture of the wrapper's requests and mpi4py's own (of another library); for the latter
nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from mpi4py import MPI as mpi

from mpi_shim.wrapper.errors import UnprefixedMessageError
from mpi_shim.wrapper.requests.handles import WithHandle
from mpi_shim.wrapper.requests.operations import Operation

Statuses = list[mpi.Status]


class Pending(WithHandle):
    """The wrapper's half of a request. ``_keep``: the user's memory, held until the request
    is over."""

    _owners: ClassVar[dict[int, Any]] = {}
    _operation: Operation | None = None
    _keep: object = None

    def _has_work(self) -> bool:
        return self._operation is not None

    def _is_over(self) -> None:
        self._drop_handle()
        self._operation = self._keep = None


class CleanUp:
    """Cleans up after an MPI error in a call on several requests.

    Some of the requests have completed all the same: they are completed here as well.
    Others are gone: they give back their memory. The caller's list of statuses shows which
    is which.
    """

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
                drop_failed(request)
            elif not request:
                complete(request, self._statuses[i])


def drop_failed(request: mpi.Request) -> None:
    """Gives back the memory of a request that is gone after an MPI error."""
    if request or not isinstance(request, Pending):
        return
    operation = request._operation
    request._is_over()
    if operation is not None:
        operation.active = False
        operation.release()


def complete(request: mpi.Request, status: mpi.Status) -> None:
    """Does what is left to do for a request that completed with this status."""
    if not isinstance(request, Pending):
        return
    operation = request._operation
    if not request:
        request._is_over()
    if operation is not None:
        operation.complete(status)


def complete_all(
    requests: Sequence[mpi.Request],
    statuses: Sequence[mpi.Status],
    objects: Iterable[Any],
) -> list[Any]:
    """Completes each request. Returns the objects that they brought, or those of mpi4py."""
    operations = [getattr(request, "_operation", None) for request in requests]
    foreign: UnprefixedMessageError | None = None
    for request, status in zip(requests, statuses, strict=False):
        try:
            complete(request, status)
        except UnprefixedMessageError as error:
            foreign = error
    if foreign is not None:
        raise foreign
    return [
        obj if operation is None else operation.result(obj)
        for operation, obj in zip(operations, objects, strict=False)
    ]


def complete_some(
    requests: Sequence[mpi.Request],
    mine: Statuses,
    statuses: Statuses | None,
    indices: list[int] | None,
    objects: list[Any] | None,
) -> tuple[list[int] | None, list[Any] | None]:
    """Completes the requests at ``indices``, whose statuses come first in ``mine``."""
    if indices is None:
        return None, None
    found = mine[: len(indices)]
    extend(statuses, found)
    return indices, complete_all([requests[i] for i in indices], found, objects or [])


def adjust(request: mpi.Request, status: mpi.Status) -> None:
    """Corrects the status of a request that completed but was not waited for."""
    operation: Operation | None = getattr(request, "_operation", None)
    if operation is not None:
        operation.adjust(status)


def padded(statuses: Statuses | None, count: int) -> Statuses:
    """Returns ``count`` statuses, the caller's first."""
    mine = list(statuses or ())
    return mine + [mpi.Status() for _ in range(len(mine), count)]


def extend(statuses: Statuses | None, mine: Statuses) -> None:
    """Extends the caller's list to hold all statuses, as mpi4py does."""
    if isinstance(statuses, list):
        statuses.extend(mine[len(statuses) :])
