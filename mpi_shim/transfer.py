"""Messages with a status byte in front: how they are sent and received.

A message becomes a struct datatype, the status byte and the user's data at their
absolute addresses, sent from MPI.BOTTOM: no copy, any datatype, any size. A small
contiguous message of a blocking send is copied behind the byte instead, which is
cheaper. A receive always takes the struct, so that the data lands where it belongs
whoever completes it. One side may copy and the other scatter: the bytes are the same,
and the same as the C interposer's.

Contiguous data is received as bytes, whatever its datatype: MPICH cuts a long message
into segments where the sender's elements end, and cannot unpack a segment that ends
within one of the receiver's. For the same reason a long message is never sent as bytes.

Where the status does not travel (COSCHED_STATUS=none, or to and from PROC_NULL) the
user's own specification goes to mpi4py untouched.

Every function takes mpi4py's own method as ``raw`` and what to call it with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.operations import Receive, Send
from mpi_shim.requests import Prequest, Request
from mpi_shim.spec import Span, parse
from mpi_shim.status_bytes import Slot, status_bytes
from mpi_shim.task import task

R = TypeVar("R")

# Up to here a copy costs less than making a datatype.
COPY_MAX_BYTES = 4096

_PREFIX = (b"\0", b"\1")

# Named datatypes without holes, by handle: those a plain copy can send.
_dense: dict[int, int] = {}


def carries_status(peer: int) -> bool:
    """Whether messages to or from ``peer`` have a status byte."""
    return task.prefix and peer != mpi.PROC_NULL


def prefixed(data: bytes) -> bytes:
    """``data`` behind this task's status."""
    return b"".join((_PREFIX[task.status()], data))


def _dense_size(datatype: mpi.Datatype) -> int:
    """Bytes of one entry of a named datatype without holes, else 0."""
    if not _dense:
        for known in mpi._typedict.values():
            if known != mpi.DATATYPE_NULL and known.Get_extent() == (
                0,
                known.Get_size(),
            ):
                _dense[known.handle] = known.Get_size()
    return _dense.get(datatype.handle, 0)


def _with_status(byte_address: int, span: Span) -> mpi.Datatype:
    """The status byte and the span as one datatype, to be used with MPI.BOTTOM."""
    return mpi.Datatype.Create_struct(
        [1, span.entries], [byte_address, span.address], [mpi.BYTE, span.datatype]
    ).Commit()


def _call(raw: Callable[[BufSpec], R], byte_address: int, span: Span) -> R:
    """``raw`` on the span with its status byte. MPI holds on to a datatype in use."""
    datatype = _with_status(byte_address, span)
    try:
        return raw((mpi.BOTTOM, 1, datatype))
    finally:
        datatype.Free()


def _as_bytes(span: Span) -> Span:
    """The same memory as bytes, if it has no holes."""
    nbytes = span.entries * _dense_size(span.datatype)
    return span._replace(entries=nbytes, datatype=mpi.BYTE) if nbytes else span


def _call_with_slot(raw: Callable[[BufSpec], R], span: Span) -> tuple[Slot, R]:
    """The same with a byte of its own, which is given back if ``raw`` fails."""
    slot = status_bytes.take()
    try:
        return slot, _call(raw, slot.address, span)
    except BaseException:
        status_bytes.give_back(slot)
        raise


def start_send(
    raw: Callable[[BufSpec], mpi.Request], message: BufSpec, dest: int
) -> Request:
    """A non-blocking send."""
    if not carries_status(dest):
        return Request(raw(message))
    span = parse(message, writable=False)
    return _start_send(raw, span)


def _start_send(raw: Callable[[BufSpec], mpi.Request], span: Span) -> Request:
    request = _call(raw, status_bytes.sending(task.status()), span)
    task.count_sent(span.nbytes)
    return Request.of(request, None, span.keep)


def send(
    block: Callable[[BufSpec], None],
    start: Callable[[BufSpec], mpi.Request],
    message: BufSpec,
    dest: int,
) -> None:
    """A blocking send: ``block`` at once if it is small, else ``start`` and wait."""
    if not carries_status(dest):
        Request(start(message)).Wait()
        return
    span = parse(message, writable=False)
    nbytes = span.entries * _dense_size(span.datatype)
    if 0 < nbytes <= COPY_MAX_BYTES or span.entries == 0:
        data = mpi.buffer.fromaddress(span.address, nbytes, readonly=True)
        block(prefixed(data.tobytes()))
        task.count_sent(nbytes)
    else:
        _start_send(start, span).Wait()


def send_buffered(raw: Callable[[BufSpec], None], message: BufSpec, dest: int) -> None:
    """A send in buffered mode, which never waits."""
    if not carries_status(dest):
        raw(message)
        return
    span = parse(message, writable=False)
    _call(raw, status_bytes.sending(task.status()), span)
    task.count_sent(span.nbytes)


def start_receive(
    raw: Callable[[BufSpec], mpi.Request], message: BufSpec, source: int
) -> Request:
    """A non-blocking receive into the user's memory."""
    if not carries_status(source):
        return Request(raw(message))
    span = _as_bytes(parse(message, writable=True))
    slot, request = _call_with_slot(raw, span)
    return Request.of(request, Receive(slot), span.keep)


def make_persistent_send(
    raw: Callable[[BufSpec], mpi.Request], message: BufSpec, dest: int
) -> Prequest:
    """A persistent send with a status byte of its own."""
    if not carries_status(dest):
        return Prequest(raw(message))
    span = parse(message, writable=False)
    slot, request = _call_with_slot(raw, span)
    return Prequest.of(request, Send(slot, span.nbytes), span.keep)


def make_persistent_receive(
    raw: Callable[[BufSpec], mpi.Request], message: BufSpec, source: int
) -> Prequest:
    """A persistent receive."""
    if not carries_status(source):
        return Prequest(raw(message))
    span = _as_bytes(parse(message, writable=True))
    slot, request = _call_with_slot(raw, span)
    return Prequest.of(request, Receive(slot, persistent=True), span.keep)
