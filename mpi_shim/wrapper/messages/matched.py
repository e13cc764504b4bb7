"""Matched messages: probed with their status byte, received without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.wrapper.data.dense import COPY_MAX_BYTES
from mpi_shim.wrapper.messages.transfer import carries_status, start_receive
from mpi_shim.wrapper.requests.handles import HandleTable
from mpi_shim.wrapper.requests.operations import (
    ObjectReceive,
    hide_status_byte,
    report_arrival,
)
from mpi_shim.wrapper.requests.request import Request
from mpi_shim.wrapper.requests.shadow_operations import report_shadow_arrival, uses_shadow
from mpi_shim.wrapper.status.peers import peers_of
from mpi_shim.wrapper.task.link import task

if TYPE_CHECKING:
    from typing_extensions import Self


class Message(mpi.Message):
    """mpi4py's Message, with whether it has a status byte in front."""

    _prefixed = False
    _total = 0  # bytes, the status byte included; known if prefixed
    _exported: int | None = None  # the handle, if the program has asked for it

    def __new__(cls, message: mpi.Message | None = None) -> Self:
        self = super().__new__(cls, message)
        if isinstance(message, Message):
            self._prefixed, self._total = message._prefixed, message._total
            self._exported = message._exported
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

    def __reduce__(self) -> str | tuple[Any, ...]:
        for name, constant in CONSTANTS.items():
            if self is constant:
                return name
            if self == constant:
                return type(self), (constant,)
        raise ValueError(f"cannot serialize '{type(self).__name__}' instance")

    def free(self) -> None:
        if not any(self is constant for constant in CONSTANTS.values()):
            mpi.Message.free(self)

    def _take(self) -> mpi.Message:
        """Returns the message to receive from. A receive uses up a message, but not the
        constant."""
        if self._exported is not None:
            _exported_totals.drop(self._exported)
        return mpi.MESSAGE_NO_PROC if self is MESSAGE_NO_PROC else self

    def Recv(self, buf: BufSpec, status: mpi.Status | None = None) -> None:
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: BufSpec) -> Request:
        return start_receive(
            lambda spec: mpi.Message.Irecv(self._take(), spec),
            buf,
            self._prefixed,
        )

    def recv(self, status: mpi.Status | None = None) -> Any:
        if not self._prefixed or self._total > COPY_MAX_BYTES:
            return self.irecv().wait(status)
        # A small message has arrived with its envelope: no wait is needed.
        room, mine = bytearray(self._total), mpi.Status() if status is None else status
        mpi.Message.Recv(self._take(), room, mine)
        nbytes = report_arrival(mine, room[0] if room else 0)
        return mpi.pickle.loads(memoryview(room)[1:]) if nbytes else None

    def irecv(self) -> Request:
        if not self._prefixed:
            return Request(mpi.Message.irecv(self._take()))
        buffer = mpi.buffer.allocate(self._total)
        request = mpi.Message.Irecv(self._take(), (buffer, self._total, mpi.BYTE))
        return Request.of(request, ObjectReceive(buffer), None)

    # Handles: an object made from a handle has the same status byte

    @property
    def handle(self) -> int:  # type: ignore[override]
        """MPI handle."""
        handle = _native_handle(self)
        if self and self._prefixed:
            self._exported = handle
            _exported_totals.put(handle, self._total)
        return handle

    def toint(self) -> int:
        _ = self.handle
        return mpi.Message.toint(self)

    def py2f(self) -> int:
        _ = self.handle
        return mpi.Message.py2f(self)

    @classmethod
    def fromhandle(cls, handle: int) -> mpi.Message:
        return cls._found(mpi.Message.fromhandle(handle))

    @classmethod
    def fromint(cls, arg: int, /) -> mpi.Message:
        return cls._found(mpi.Message.fromint(arg))

    @classmethod
    def f2py(cls, arg: int) -> mpi.Message:
        return cls._found(mpi.Message.f2py(arg))

    @classmethod
    def _found(cls, message: mpi.Message) -> mpi.Message:
        found = cls(message)
        handle = _native_handle(message)
        total = _exported_totals.find(handle)
        if message and total is not None:
            found._prefixed, found._total, found._exported = True, total, handle
        return found


def _native_handle(message: mpi.Message) -> int:
    return int(cast("Any", mpi.Message.handle).__get__(message))


# The bytes in each message whose handle the program has asked for.
_exported_totals: HandleTable[int] = HandleTable()

MESSAGE_NULL = Message(mpi.MESSAGE_NULL)
MESSAGE_NO_PROC = Message(mpi.MESSAGE_NO_PROC)
CONSTANTS = {"MESSAGE_NULL": MESSAGE_NULL, "MESSAGE_NO_PROC": MESSAGE_NO_PROC}


def match(
    comm: mpi.Comm,
    source: int,
    tag: int,
    status: mpi.Status | None,
    *,
    blocking: bool,
    pickled: bool,
) -> Message | None:
    """Takes a message out of the queue and returns it. Without ``blocking``, returns None
    if there is none. ``pickled``: the caller will unpickle it."""
    carries = carries_status(comm, source)
    mine = mpi.Status() if status is None else status
    # mpi4py's forms for pickled messages allocate the memory to receive them into. With a
    # status byte the wrapper allocates it.
    iprobe, probe = (
        (mpi.Message.iprobe, mpi.Message.probe)
        if pickled and not carries
        else (mpi.Message.Iprobe, mpi.Message.Probe)
    )
    found = (
        task.wait(
            lambda: iprobe(comm, source, tag, mine),
            lambda: probe(comm, source, tag, mine),
        )
        if blocking
        else task.look(lambda: iprobe(comm, source, tag, mine))
    )
    if found is None:
        return None
    if source != mpi.PROC_NULL and uses_shadow(comm):
        # The call that receives it does not get its source: report the arrival here.
        report_shadow_arrival(peers_of(comm), mine)
    message = Message(found)
    if carries:
        message._prefixed, message._total = True, mine.Get_elements(mpi.BYTE)
        hide_status_byte(mine)
    return message
