"""Handles matched messages: probed with their status byte, received without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from mpi4py import MPI as mpi
from mpi4py.typing import BufSpec

from mpi_shim.wrapper.data.dense import COPY_MAX_BYTES
from mpi_shim.wrapper.messages.transfer import carries_status, start_receive
from mpi_shim.wrapper.requests.handles import WithHandle
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


def _probe(name: str) -> Any:
    """Returns a class method that calls the method ``name`` of a communicator."""

    def call(
        cls: type[Message],
        comm: mpi.Comm,
        source: int = mpi.ANY_SOURCE,
        tag: int = mpi.ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Message | None:
        message = getattr(comm, name)(source, tag, status)
        return None if message is None else cls(message)

    return classmethod(call)


class Message(WithHandle, mpi.Message):
    """mpi4py's Message, with whether it has a status byte in front."""

    _theirs = mpi.Message
    _owners: ClassVar[dict[int, Any]] = {}
    _prefixed = False
    _total = 0  # bytes, the status byte included; known if prefixed

    Probe = _probe("Mprobe")
    Iprobe = _probe("Improbe")
    probe = _probe("mprobe")
    iprobe = _probe("improbe")

    def __new__(cls, message: mpi.Message | None = None) -> Self:
        self = super().__new__(cls, message)
        if isinstance(message, Message):
            self._prefixed, self._total = message._prefixed, message._total
            self._exported = message._exported
        return self

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
        self._drop_handle()
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

    def _has_work(self) -> bool:
        return self._prefixed


MESSAGE_NULL = Message(mpi.MESSAGE_NULL)
MESSAGE_NO_PROC = Message(mpi.MESSAGE_NO_PROC)
CONSTANTS = {"MESSAGE_NULL": MESSAGE_NULL, "MESSAGE_NO_PROC": MESSAGE_NO_PROC}


def matching(*, blocking: bool, pickled: bool) -> Any:
    """Returns a method of communicators that takes a message out of the queue and returns
    it. Without ``blocking``, it returns None if there is none. ``pickled``: the caller will
    unpickle the message."""

    def call(
        self: mpi.Comm,
        source: int = mpi.ANY_SOURCE,
        tag: int = mpi.ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Message | None:
        carries = carries_status(self, source)
        mine = mpi.Status() if status is None else status
        # mpi4py's forms for pickled messages allocate the memory to receive them into.
        # With a status byte the wrapper allocates it.
        iprobe, probe = (
            (mpi.Message.iprobe, mpi.Message.probe)
            if pickled and not carries
            else (mpi.Message.Iprobe, mpi.Message.Probe)
        )

        def poll() -> mpi.Message | None:
            return iprobe(self, source, tag, mine)

        if blocking:
            found = task.wait(poll, lambda: probe(self, source, tag, mine))
        else:
            found = task.look(poll)
        if found is None:
            return None
        if source != mpi.PROC_NULL and uses_shadow(self):
            # The call that receives it does not get its source: report the arrival here.
            report_shadow_arrival(peers_of(self), mine)
        message = Message(found)
        if carries:
            message._prefixed, message._total = True, mine.Get_elements(mpi.BYTE)
            hide_status_byte(mine)
        return message

    return call
