"""Sends and receives messages with a status byte in front.

A message becomes a struct datatype, sent from MPI.BOTTOM: the status byte and the user's
data at their absolute addresses. This needs no copy and works for any datatype and size.
For a small contiguous message of a blocking call a copy behind the byte is cheaper. A
non-blocking receive always uses the struct, so that MPI itself puts the data where it
belongs. One side may copy and the other use the struct: the bytes are the same, and the
same as the C interposer's.

Contiguous data is received as bytes, whatever its datatype. MPICH cuts a long message into
segments where the sender's elements end, and cannot unpack a segment that ends within an
element of the receiver. For the same reason a long message is never sent as bytes.

A message without a byte (see ``carries_status``) goes to mpi4py as the user specified it.

In every function ``raw`` is mpi4py's own method, called with a message specification.
``carries`` is whether the message has a status byte. ``beside`` is the operation of a
message whose status travels beside it, if any.
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
    PersistentSend,
    Receive,
    adopt_orphan,
    report_arrival,
)
from mpi_shim.wrapper.requests.request import Prequest, Request
from mpi_shim.wrapper.status.prefix_bytes import Slot, status_bytes
from mpi_shim.wrapper.task.link import task

R = TypeVar("R")

_PREFIX = (b"\0", b"\1")


def carries_status(comm: mpi.Comm, peer: int) -> bool:
    """Whether messages to or from ``peer`` have a status byte: under COSCHED_STATUS=prefix,
    on the wrapper's communicators, but not with PROC_NULL. A library may call a method of
    the wrapper with a communicator of mpi4py."""
    return task.prefix and peer != mpi.PROC_NULL and getattr(comm, "_wrapped", False)


def prefixed(data: bytes | memoryview) -> bytes:
    """Returns ``data`` with this task's status in front."""
    return b"".join((_PREFIX[task.status()], data))


def _with_status(byte_address: int, span: Span) -> mpi.Datatype:
    """Returns the status byte and the span as one datatype, for use with MPI.BOTTOM."""
    return mpi.Datatype.Create_struct(
        [1, span.entries], [byte_address, span.address], [mpi.BYTE, span.datatype]
    ).Commit()


def _call(raw: Callable[[BufSpec], R], byte_address: int, span: Span) -> R:
    """Calls ``raw`` on the span with its status byte. MPI keeps a datatype that is in
    use."""
    datatype = _with_status(byte_address, span)
    try:
        return raw((mpi.BOTTOM, 1, datatype))
    finally:
        datatype.Free()


def _as_bytes(span: Span) -> Span:
    """Returns the same memory as bytes, if it has no holes."""
    nbytes = span.entries * dense_size(span.datatype)
    if nbytes == 0:
        return span
    return Span(span.address, nbytes, mpi.BYTE, span.room, span.keep)


def _call_with_slot(raw: Callable[[BufSpec], R], span: Span) -> tuple[Slot, R]:
    """Calls ``raw`` with a slot for the status byte; gives the slot back if that fails."""
    slot = status_bytes.take()
    try:
        return slot, _call(raw, slot.address, span)
    except BaseException:
        status_bytes.give_back(slot)
        raise


def start_send(
    raw: Callable[[BufSpec], mpi.Request], message: BufSpec, carries: bool
) -> Request:
    """Starts a non-blocking send."""
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
    """Sends with ``block`` if the message is small, otherwise with ``start`` and a wait."""
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
    """Sends in buffered mode, which never waits."""
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
    """Starts a non-blocking receive into the user's memory."""
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
    """Receives. A small message is received with its byte and then copied."""
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
    nbytes = report_arrival(mine, room[0])
    if nbytes:
        view.cast("B")[:nbytes] = memoryview(room)[1 : nbytes + 1]


def _wait_for(request: mpi.Request, status: mpi.Status) -> None:
    """Waits for a receive into memory of the wrapper, which must live as long."""
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
    """Makes a persistent send."""
    if not carries:
        return Prequest.of(raw(message), beside, None)
    span = parse(message, writable=False)
    slot, request = _call_with_slot(raw, span)
    return Prequest.of(request, PersistentSend(slot, span.nbytes), span.keep)


def make_persistent_receive(
    raw: Callable[[BufSpec], mpi.Request],
    message: BufSpec,
    carries: bool,
    beside: Operation | None = None,
) -> Prequest:
    """Makes a persistent receive."""
    if not carries:
        return Prequest.of(raw(message), beside, None)
    span = _as_bytes(parse(message, writable=True))
    slot, request = _call_with_slot(raw, span)
    return Prequest.of(request, Receive(slot, persistent=True), span.keep)
