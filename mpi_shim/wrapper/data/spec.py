"""Parses mpi4py's message specifications.

mpi4py accepts a buffer, or a list or tuple of buffer, count, displacement and datatype in
several arrangements, and turns it into address, count and datatype deep inside. The wrapper
needs the address to put a status byte in front of a message. It therefore does the same,
with the same rules and the same errors (``message_simple`` in mpi4py 4).

Limit: memory of accelerators is refused. The status byte is in host memory, and no MPI
library sends a datatype with parts in both.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, cast

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.wrapper.data.dense import dense_size
from mpi_shim.wrapper.data.dlpack import type_string
from mpi_shim.wrapper.errors import not_covered


class Span(NamedTuple):
    """Where the user's data is."""

    address: int  #: where the first entry begins
    entries: int  #: how many entries of the datatype
    datatype: mpi.Datatype  #: the type of an entry
    room: int  #: bytes of the memory that follow the address
    keep: object  #: the object that owns the memory

    @property
    def nbytes(self) -> int:
        """Bytes of data, without holes."""
        return self.entries * self.datatype.Get_size()

    def copy(self) -> Span | None:
        """Returns a copy of data and holes, or None if the datatype leads outside the
        memory that the message named."""
        lower, nbytes = self.datatype.Get_true_extent()
        nbytes += max(0, self.entries - 1) * self.datatype.Get_extent()[1]
        if self.nbytes == 0:
            return self
        if lower < 0 or lower + nbytes > self.room or self.datatype.Get_extent()[1] < 0:
            return None
        memory = mpi.buffer.allocate(lower + nbytes)
        memory[:] = mpi.buffer.fromaddress(self.address, len(memory), readonly=True)
        return self._replace(address=memory.address, keep=memory)


class _Memory(NamedTuple):
    address: int
    nbytes: int
    format: str | mpi.Datatype | None
    keep: object


def parse(message: BufSpec, *, writable: bool) -> Span:
    """Returns the span that ``message`` describes. Raises the errors that mpi4py raises."""
    plain = _parse_plain(message, writable)
    if plain is not None:
        return plain
    buffer, count, displacement, typespec = _unpack(message)
    if buffer is None or isinstance(buffer, mpi.BottomType):
        memory = _Memory(0, 0, None, None)
        datatype = _lookup(typespec)
    else:
        memory = _memory(buffer, writable)
        datatype = _lookup(memory.format if typespec is None else typespec)
    offset = _offset(displacement, datatype, memory.nbytes)
    return Span(
        memory.address + offset,
        _count(count, buffer, datatype, memory.nbytes - offset),
        datatype,
        memory.nbytes - offset,
        memory.keep,
    )


def _parse_plain(message: Any, writable: bool) -> Span | None:
    """Parses the common case fast: a bare buffer of numbers."""
    if isinstance(message, (list, tuple)):
        return None
    try:
        view = memoryview(message)
    except (TypeError, ValueError, BufferError):
        return None
    datatype = mpi._typedict.get(view.format)
    if datatype is None or dense_size(datatype) != view.itemsize:
        return None
    if not view.contiguous or (writable and view.readonly):
        return None
    nbytes = view.nbytes
    return Span(mpi.Get_address(view), nbytes // view.itemsize, datatype, nbytes, message)


def _unpack(message: Any) -> tuple[Any, Any, Any, Any]:
    """Returns (buffer, count, displacement, datatype); None for a part that is missing."""
    if not isinstance(message, (list, tuple)):
        if isinstance(message, mpi.BottomType) or not _is_buffer(message):
            raise TypeError("message: expecting buffer or list/tuple")
        return message, None, None, None
    if len(message) == 4:
        return cast("tuple[Any, Any, Any, Any]", tuple(message))
    if len(message) == 3:
        buffer, count, typespec = message
    elif len(message) == 2:
        buffer, count = message
        typespec = None
        if isinstance(count, (mpi.Datatype, str)):
            return buffer, None, None, count
    else:
        raise ValueError("message: expecting 2 to 4 items")
    if isinstance(count, (list, tuple)):
        count, displacement = count
        return buffer, count, displacement, typespec
    return buffer, count, None, typespec


def _is_buffer(obj: object) -> bool:
    try:
        memoryview(obj).release()  # type: ignore[arg-type]
    except TypeError:
        return hasattr(obj, "__dlpack__") or hasattr(obj, "__cuda_array_interface__")
    except (BufferError, ValueError):
        pass
    return True


def _memory(obj: Any, writable: bool) -> _Memory:
    try:
        view = memoryview(obj)
    except (TypeError, ValueError):
        return _exported_memory(obj, writable)
    if not view.contiguous:
        raise BufferError("message: buffer is not contiguous")
    if writable and view.readonly:
        raise BufferError("message: buffer is not writable")
    return _Memory(mpi.Get_address(view), view.nbytes, view.format, obj)


def _exported_memory(obj: Any, writable: bool) -> _Memory:
    """Returns the memory of an object that has only DLPack or the CUDA array interface (the
    latter never has host memory), or whose elements have no format code (they are
    bytes)."""
    memory = mpi.buffer.frombuffer(obj, readonly=not writable)
    try:
        memory.cast("B")
    except BufferError:
        raise not_covered(
            "a message in accelerator memory", "copy it to host memory first"
        ) from None
    return _Memory(memory.address, memory.nbytes, type_string(obj) or mpi.BYTE, memory)


def _lookup(key: mpi.Datatype | str | None) -> mpi.Datatype:
    if isinstance(key, mpi.Datatype):
        return key
    if isinstance(key, str) and key[:1] in "@<>":
        native = "<" if memoryview(b"\1\0").cast("H")[0] == 1 else ">"
        if key[:1] not in ("@", native):
            raise BufferError(f"format string {key!r} with non-native byte order")
        key = key[1:]
    try:
        return mpi._typedict[cast("str", key)]
    except KeyError:
        raise KeyError(f"cannot map {key!r} to MPI datatype") from None


def _positive_extent(datatype: mpi.Datatype, purpose: str) -> int:
    if datatype == mpi.DATATYPE_NULL:
        raise ValueError(f"message: cannot {purpose}, datatype is null")
    lower, extent = datatype.Get_extent()
    if extent <= 0:
        raise ValueError(
            f"message: cannot {purpose}, "
            f"datatype extent {extent} (lb:{lower}, ub:{lower + extent})"
        )
    return extent


def _offset(displacement: Any, datatype: mpi.Datatype, nbytes: int) -> int:
    """Returns the bytes from the start of the buffer to the message."""
    if displacement is None:
        return 0
    entries = operator.index(displacement)
    if entries < 0:
        raise ValueError(f"message: negative displacement {entries}")
    if entries == 0:
        return 0
    extent = _positive_extent(datatype, "handle displacement")
    if entries * extent > nbytes:
        raise ValueError(
            f"message: displacement {entries} out of bounds, "
            f"number of datatype entries {nbytes // extent}"
        )
    return entries * extent


def _count(count: Any, buffer: Any, datatype: mpi.Datatype, nbytes: int) -> int:
    """Returns the count of entries: the given one, or as many as fill the buffer."""
    if count is not None:
        entries = operator.index(count)
        if entries < 0:
            raise ValueError(f"message: negative count {entries}")
        if entries > 0 and buffer is None:
            raise ValueError(f"message: buffer is None but count is {entries}")
        return entries
    if nbytes == 0:
        return 0
    extent = _positive_extent(datatype, "infer count")
    if nbytes % extent != 0:
        raise ValueError(
            f"message: cannot infer count, buffer length {nbytes} is not a multiple of "
            f"datatype extent {extent}"
        )
    return nbytes // extent


def nbytes_of(message: BufSpec) -> int:
    """Returns the bytes of data in ``message``; 0 for memory of an accelerator."""
    try:
        return parse(message, writable=False).nbytes
    except NotImplementedError:
        return 0
