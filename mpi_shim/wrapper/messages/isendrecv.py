"""Sending and receiving in one call: what Isendrecv and the replacing forms need.

MPI's own MPI_Isendrecv does not do: MPICH leaves the status of its request empty, Open MPI
loses a truncation. So the call is a receive, which is the program's request, and a send
of a copy, which completes in its own time and leaves the program's memory free from the
start. It is what the C interposer does.

A datatype that leads outside the memory that was named cannot be copied byte by byte. It
is packed: a message that is short enough to travel in one piece. Sendrecv_replace has no
such bound: it receives beside the program's memory and unpacks at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.wrapper.data.dense import COPY_MAX_BYTES
from mpi_shim.wrapper.data.packed import Packed
from mpi_shim.wrapper.data.spec import Span, parse
from mpi_shim.wrapper.errors import not_covered
from mpi_shim.wrapper.requests.operations import Operation, PackedReceive
from mpi_shim.wrapper.requests.request import Request

Start = Callable[[BufSpec], mpi.Request]


def copied(message: BufSpec, what: str) -> BufSpec:
    """The same data in memory of its own, for the call ``what``; NotImplementedError where
    that cannot be had."""
    span = parse(message, writable=False)
    copy = span.copy()
    if copy is not None:
        return (copy.keep, copy.entries, copy.datatype)
    if span.nbytes > COPY_MAX_BYTES:
        raise not_covered(
            f"{what} of more than {COPY_MAX_BYTES} bytes of a datatype that leads outside "
            "the buffer",
            "use Isend and Irecv",
        )
    return (Packed(span).take(), mpi.BYTE)


def copied_plainly(message: BufSpec) -> BufSpec | None:
    """The same data in memory of its own; None where only MPI can tell how."""
    try:
        copy = parse(message, writable=True).copy()
    except NotImplementedError:  # memory of an accelerator
        return None
    return None if copy is None else (copy.keep, copy.entries, copy.datatype)


def start_receive_beside(raw: Start, span: Span) -> Request:
    """A non-blocking receive into memory that is still being sent from."""
    room = mpi.buffer.allocate(1 + span.nbytes)
    request = raw((room, len(room), mpi.BYTE))
    return Request.of(request, PackedReceive(room, Packed(span)), span.keep)


class ExchangeReceive(Operation):
    """The receiving half of an exchange, to which its sending half clings."""

    def __init__(self, inner: Operation, sending: Request) -> None:
        super().__init__()
        self._inner, self._sending = inner, sending

    def adjust(self, status: mpi.Status) -> None:
        self._inner.adjust(status)

    def complete(self, status: mpi.Status) -> None:
        super().complete(status)
        _sends.keep(self._sending)
        self._inner.complete(status)

    def release(self) -> None:
        self._inner.active = self.active
        self._inner.release()


class _Sends:
    """Sends of copies that nobody waits for. Each new one looks after the old."""

    def __init__(self) -> None:
        self._pending: list[Request] = []

    def keep(self, sending: Request) -> None:
        self._pending = [each for each in (*self._pending, sending) if not each.Test()]


_sends = _Sends()


def exchange(receiving: Request, sending: Request) -> Request:
    """The two halves as one request; nothing is left to do for a receive from nobody."""
    inner = receiving._operation or Operation()
    receiving._operation = ExchangeReceive(inner, sending)
    return receiving
