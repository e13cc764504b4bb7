"""Sends and receives in one call: Isendrecv and the replacing forms.

MPI's own MPI_Isendrecv cannot be used: MPICH leaves the status of its request empty, and
Open MPI loses a truncation. The call is therefore a receive, which is the program's
request, and a send of a copy. The program may use its memory at once; the send completes
later. The C interposer does the same.

A datatype that leads outside the given memory cannot be copied byte by byte. Its data is
packed if the message is short enough to travel in one piece. Sendrecv_replace has no such
limit: it receives into other memory and unpacks at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.wrapper.data.packed import Packed
from mpi_shim.wrapper.data.spec import Span, parse
from mpi_shim.wrapper.errors import not_covered
from mpi_shim.wrapper.requests.operations import Operation, PackedReceive
from mpi_shim.wrapper.requests.request import Request

#: The longest message that is packed for a datatype that leads outside its memory.
PACK_MAX_BYTES = 4096

Start = Callable[[BufSpec], mpi.Request]


def copied(message: BufSpec, what: str) -> BufSpec:
    """Returns a copy of the data for the call ``what``. Raises NotImplementedError if the
    data cannot be copied."""
    span = parse(message, writable=False)
    copy = span.copy()
    if copy is not None:
        return (copy.keep, copy.entries, copy.datatype)
    if span.nbytes > PACK_MAX_BYTES:
        raise not_covered(
            f"{what} of more than {PACK_MAX_BYTES} bytes of a datatype that leads outside "
            "the buffer",
            "use Isend and Irecv",
        )
    return (Packed(span).take(), mpi.BYTE)


def copied_plainly(message: BufSpec) -> BufSpec | None:
    """Returns a copy of the data, or None if only MPI can copy it."""
    try:
        copy = parse(message, writable=True).copy()
    except NotImplementedError:  # memory of an accelerator
        return None
    return None if copy is None else (copy.keep, copy.entries, copy.datatype)


def start_receive_beside(raw: Start, span: Span) -> Request:
    """Starts a receive into memory that is still being sent from."""
    room = mpi.buffer.allocate(1 + span.nbytes)
    request = raw((room, len(room), mpi.BYTE))
    return Request.of(request, PackedReceive(room, Packed(span)), span.keep)


class ExchangeReceive(Operation):
    """The receiving half of an exchange; it completes the sending half."""

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
    """Sends of copies, for which no call waits. Each new one tests the older ones."""

    def __init__(self) -> None:
        self._pending: list[Request] = []

    def keep(self, sending: Request) -> None:
        self._pending = [each for each in (*self._pending, sending) if not each.Test()]


_sends = _Sends()


def exchange(receiving: Request, sending: Request) -> Request:
    """Returns the two halves as one request. A receive from PROC_NULL has no work left."""
    inner = receiving._operation or Operation()
    receiving._operation = ExchangeReceive(inner, sending)
    return receiving
