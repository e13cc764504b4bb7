"""Matched messages: probed with their status byte, received without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.errors import not_covered
from mpi_shim.operations import ObjectReceive, hide_status_byte
from mpi_shim.requests import Request
from mpi_shim.task import task
from mpi_shim.transfer import start_receive
from mpi_shim.waiting import wait

if TYPE_CHECKING:
    from typing_extensions import Self


class Message(mpi.Message):
    """mpi4py's Message, which knows whether a status byte waits in it."""

    _prefixed = False
    _total = 0  # bytes, the status byte included; known if prefixed

    def __new__(cls, message: mpi.Message | None = None) -> Self:
        self = super().__new__(cls, message)
        if isinstance(message, Message):
            self._prefixed, self._total = message._prefixed, message._total
        return self

    @classmethod
    def Probe(
        cls,
        comm: mpi.Comm,
        source: int = mpi.ANY_SOURCE,
        tag: int = mpi.ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Self:
        return cls(comm.Mprobe(source, tag, status))

    @classmethod
    def Iprobe(
        cls,
        comm: mpi.Comm,
        source: int = mpi.ANY_SOURCE,
        tag: int = mpi.ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Self | None:
        message = comm.Improbe(source, tag, status)
        return None if message is None else cls(message)

    @classmethod
    def probe(
        cls,
        comm: mpi.Comm,
        source: int = mpi.ANY_SOURCE,
        tag: int = mpi.ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Self:
        return cls(comm.mprobe(source, tag, status))

    @classmethod
    def iprobe(
        cls,
        comm: mpi.Comm,
        source: int = mpi.ANY_SOURCE,
        tag: int = mpi.ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Self | None:
        message = comm.improbe(source, tag, status)
        return None if message is None else cls(message)

    def Recv(self, buf: BufSpec, status: mpi.Status | None = None) -> None:
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: BufSpec) -> Request:
        return start_receive(
            lambda spec: mpi.Message.Irecv(self, spec),
            buf,
            mpi.ANY_SOURCE if self._prefixed else mpi.PROC_NULL,
        )

    def recv(self, status: mpi.Status | None = None) -> Any:
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        if not self._prefixed:
            return Request(mpi.Message.irecv(self))
        buffer = mpi.buffer.allocate(self._total)
        request = mpi.Message.Irecv(self, (buffer, self._total, mpi.BYTE))
        return Request.of(request, ObjectReceive(buffer), None)

    # Handles: whether there is a status byte does not travel with them

    @classmethod
    def fromhandle(cls, handle: int) -> mpi.Message:
        return cls(_predefined_only(mpi.Message.fromhandle(handle), "Message.fromhandle"))

    @classmethod
    def fromint(cls, arg: int, /) -> mpi.Message:
        return cls(_predefined_only(mpi.Message.fromint(arg), "Message.fromint"))

    @classmethod
    def f2py(cls, arg: int) -> mpi.Message:
        return cls(_predefined_only(mpi.Message.f2py(arg), "Message.f2py"))


def match(
    comm: mpi.Comm,
    source: int,
    tag: int,
    status: mpi.Status | None,
    *,
    blocking: bool,
    pickled: bool,
) -> Message | None:
    """Takes a message out of the queue of ``comm``, one of the wrapper's communicators.
    Without ``blocking``, None if there is none; ``pickled``: it will be unpickled."""
    mine = mpi.Status() if status is None else status
    # mpi4py's forms for pickled messages bring the memory to receive them into, which
    # the wrapper allocates itself where there is a status byte.
    iprobe, probe = (
        (mpi.Message.iprobe, mpi.Message.probe)
        if pickled and not task.prefix
        else (mpi.Message.Iprobe, mpi.Message.Probe)
    )
    found = (
        wait(
            lambda: iprobe(comm, source, tag, mine),
            lambda: probe(comm, source, tag, mine),
        )
        if blocking
        else iprobe(comm, source, tag, mine)
    )
    if found is None:
        return None
    message = Message(found)
    if task.prefix and message != mpi.MESSAGE_NO_PROC:
        message._prefixed, message._total = True, mine.Get_elements(mpi.BYTE)
        hide_status_byte(mine)
    return message


def _predefined_only(message: mpi.Message, what: str) -> mpi.Message:
    if message and message != mpi.MESSAGE_NO_PROC:
        raise not_covered(what, "keep the message object itself")
    return message
