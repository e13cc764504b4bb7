"""Messages with a status byte in front: how they are sent and received.

A message becomes a struct datatype, the status byte and the user's data at their
absolute addresses, sent from MPI.BOTTOM: no copy, any datatype, any size. A small
contiguous message of a blocking send is copied behind the byte instead, which is
cheaper, and so is a small blocking receive. A non-blocking receive always takes the
struct, so that the data lands where it belongs whoever completes it. One side may copy
and the other scatter: the bytes are the same, and the same as the C interposer's.

Contiguous data is received as bytes, whatever its datatype: MPICH cuts a long message
into segments where the sender's elements end, and cannot unpack a segment that ends
within one of the receiver's. For the same reason a long message is never sent as bytes.

Where no byte travels (see ``carries_status``) the user's own specification goes to mpi4py
untouched; what is told and beside beside it is shadow_operations.py's.

Every function takes mpi4py's own method as ``raw``, to be called with a specification,
and whether the message ``carries`` a status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.wrapper.data.dense import COPY_MAX_BYTES, dense_size, small_view
from mpi_shim.wrapper.data.spec import Span, parse
from mpi_shim.wrapper.requests.operations import (
    Operation,
    Receive,
    Send,
    adopt_orphan,
    note_arrival,
)
from mpi_shim.wrapper.requests.request import Prequest, Request
from mpi_shim.wrapper.status.prefix_bytes import Slot, status_bytes
from mpi_shim.wrapper.task.link import task

R = TypeVar("R")

_PREFIX = (b"\0", b"\1")


def carries_status(comm: mpi.Comm, peer: int) -> bool:
    """Whether messages to or from ``peer`` have a status byte: under
    COSCHED_STATUS=prefix, on the wrapper's communicators (a library may call a method of
    the wrapper's with one of mpi4py's), but not with PROC_NULL."""
    return task.prefix and peer != mpi.PROC_NULL and getattr(comm, "_wrapped", False)


def prefixed(data: bytes | memoryview) -> bytes:
    """``data`` behind this task's status."""
    return b"".join((_PREFIX[task.status()], data))


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
    nbytes = span.entries * dense_size(span.datatype)
    if nbytes == 0:
        return span
    return Span(span.address, nbytes, mpi.BYTE, span.room, span.keep)


def _call_with_slot(raw: Callable[[BufSpec], R], span: Span) -> tuple[Slot, R]:
    """The same with a byte of its own, which is given back if ``raw`` fails."""
    slot = status_bytes.take()
    try:
        return slot, _call(raw, slot.address, span)
    except BaseException:
        status_bytes.give_back(slot)
        raise


def start_send(
    raw: Callable[[BufSpec], mpi.Request], message: BufSpec, carries: bool
) -> Request:
    """A non-blocking send."""
    if not carries:
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
    carries: bool,
) -> None:
    """A blocking send: ``block`` at once if it is small, else ``start`` and wait."""
    if not carries:
        if task.waits:
            Request(start(message)).Wait()
        else:
            block(message)
        return
    view = small_view(message, writable=False)
    if view is not None:
        block(prefixed(view))
        task.count_sent(view.nbytes)
        return
    span = parse(message, writable=False)
    nbytes = span.entries * dense_size(span.datatype)
    if 0 < nbytes <= COPY_MAX_BYTES or span.entries == 0:
        data = mpi.buffer.fromaddress(span.address, nbytes, readonly=True)
        block(prefixed(data.tobytes()))
        task.count_sent(nbytes)
    else:
        _start_send(start, span).Wait()


def send_buffered(raw: Callable[[BufSpec], None], message: BufSpec, carries: bool) -> None:
    """A send in buffered mode, which never waits."""
    if not carries:
        raw(message)
        return
    span = parse(message, writable=False)
    _call(raw, status_bytes.sending(task.status()), span)
    task.count_sent(span.nbytes)


def start_receive(
    raw: Callable[[BufSpec], mpi.Request],
    message: BufSpec,
    carries: bool,
    beside: Operation | None = None,
) -> Request:
    """A non-blocking receive into the user's memory. ``beside``: what is left to do where
    the message does not carry a status."""
    if not carries:
        return Request.of(raw(message), beside, None)
    span = _as_bytes(parse(message, writable=True))
    slot, request = _call_with_slot(raw, span)
    return Request.of(request, Receive(slot), span.keep)


def receive(
    block: Callable[[BufSpec, mpi.Status], None],
    start: Callable[[BufSpec], mpi.Request],
    message: BufSpec,
    carries: bool,
    status: mpi.Status | None,
    beside: Operation | None = None,
) -> None:
    """A blocking receive. What is small is received behind its byte and copied out."""
    view = small_view(message, writable=True) if carries else None
    if view is None:
        start_receive(start, message, carries, beside).Wait(status)
        return
    room = bytearray(view.nbytes + 1)
    mine = mpi.Status() if status is None else status
    if task.waits:
        _wait_for(start(room), mine)
    else:
        block(room, mine)
    nbytes = note_arrival(mine, room[0])
    if nbytes:
        view.cast("B")[:nbytes] = memoryview(room)[1 : nbytes + 1]


def _wait_for(request: mpi.Request, status: mpi.Status) -> None:
    """Waits for a receive into the wrapper's memory, which must outlive it."""
    try:
        task.wait(lambda: request.Test(status), lambda: request.Wait(status))
    except BaseException:
        if request:
            adopt_orphan(request)
        raise


def make_persistent_send(
    raw: Callable[[BufSpec], mpi.Request],
    message: BufSpec,
    carries: bool,
    beside: Operation | None = None,
) -> Prequest:
    """A persistent send with a status byte of its own, or with ``beside`` beside it."""
    if not carries:
        return Prequest.of(raw(message), beside, None)
    span = parse(message, writable=False)
    slot, request = _call_with_slot(raw, span)
    return Prequest.of(request, Send(slot, span.nbytes), span.keep)


def make_persistent_receive(
    raw: Callable[[BufSpec], mpi.Request],
    message: BufSpec,
    carries: bool,
    beside: Operation | None = None,
) -> Prequest:
    """A persistent receive."""
    if not carries:
        return Prequest.of(raw(message), beside, None)
    span = _as_bytes(parse(message, writable=True))
    slot, request = _call_with_slot(raw, span)
    return Prequest.of(request, Receive(slot, persistent=True), span.keep)
