"""Handles data without holes: copies it, or has it sent and received as plain bytes."""

from __future__ import annotations

import functools
from typing import Any

from mpi4py import MPI as mpi

# Up to this size a copy costs less than making a datatype. With its headers such a message
# has less than 4 KiB. Open MPI writes a longer one past the end of a buffer that is too
# short (docs/families.md), and the buffer would be the wrapper's own.
COPY_MAX_BYTES = 3968


@functools.cache
def _sizes() -> tuple[dict[int, int], dict[str, int]]:
    """Returns the sizes of named datatypes without holes, by handle and by format code."""
    by_code = {
        code: datatype.Get_size()
        for code, datatype in mpi._typedict.items()
        if datatype != mpi.DATATYPE_NULL
        and datatype.Get_extent() == (0, datatype.Get_size())
    }
    by_handle = {mpi._typedict[code].handle: size for code, size in by_code.items()}
    return by_handle, by_code


def dense_size(datatype: mpi.Datatype) -> int:
    """Returns the bytes of one entry of a named datatype without holes, otherwise 0."""
    return _sizes()[0].get(datatype.handle, 0)


def small_view(message: Any, *, writable: bool) -> memoryview | None:
    """Returns the memory of a small message that is a buffer or [buffer, datatype] without
    holes. Returns None for any other message, and for one that is not valid."""
    size = 0
    if isinstance(message, (list, tuple)):
        if len(message) != 2 or not isinstance(message[1], mpi.Datatype):
            return None
        message, datatype = message
        size = dense_size(datatype)
        if size == 0:
            return None
    try:
        view = memoryview(message)
    except (TypeError, ValueError, BufferError):
        return None
    if view.nbytes > COPY_MAX_BYTES or not view.c_contiguous:
        return None
    if (writable and view.readonly) or view.nbytes == 0:
        return None
    if size:
        return None if view.nbytes % size else view
    return view if view.format in _sizes()[1] else None
