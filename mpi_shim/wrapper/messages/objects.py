"""Makes point-to-point calls on pickled objects: mpi4py's lower-case methods.

The status byte goes in front of the pickle: both are one contiguous message.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import mpi4py
from mpi4py import MPI as mpi
from mpi4py.typing import Buffer

from mpi_shim.wrapper.data.dense import COPY_MAX_BYTES
from mpi_shim.wrapper.messages.buffers import ANY_SOURCE, ANY_TAG, BufferCalls, Comm
from mpi_shim.wrapper.messages.matched import matching
from mpi_shim.wrapper.messages.transfer import carries_status, prefixed
from mpi_shim.wrapper.requests.operations import ObjectReceive
from mpi_shim.wrapper.requests.request import Request
from mpi_shim.wrapper.requests.shadow_operations import (
    send_status_first,
    shadow_receive,
    uses_shadow,
)
from mpi_shim.wrapper.task.link import task


def _starting(
    of_object: Callable[..., mpi.Request], of_bytes: Callable[..., mpi.Request]
) -> Any:
    """Returns a method that starts a send of an object: by mpi4py's ``of_object`` if no
    status travels, otherwise of its pickle by ``of_bytes``."""

    def call(self: ObjectCalls, obj: Any, dest: int, tag: int = 0) -> Request:
        data = self._pickled(obj, dest)
        if data is None:
            return Request(of_object(self, obj, dest, tag))
        return Request(of_bytes(self, data, dest, tag))

    return call


class ObjectCalls(BufferCalls):
    """Lower-case point-to-point methods: the status travels with each pickle."""

    def _pickled(self, obj: Any, dest: int) -> bytes | None:
        """Returns the message for ``obj`` and counts it as sent. Returns None if the status
        does not travel: then mpi4py sends the object."""
        carries = carries_status(self, dest)
        if not carries and (dest == mpi.PROC_NULL or not uses_shadow(self)):
            return None
        data = mpi.pickle.dumps(obj)
        if not carries:
            send_status_first(self, dest, len(data))
            return data
        task.count_sent(len(data))
        return prefixed(data)

    # Sends

    def send(self, obj: Any, dest: int, tag: int = 0) -> None:
        data = self._pickled(obj, dest)
        if data is None:
            Request(Comm.isend(self, obj, dest, tag)).Wait()
        elif len(data) <= COPY_MAX_BYTES:
            Comm.Send(self, data, dest, tag)
        else:
            Request(Comm.Isend(self, data, dest, tag)).Wait()

    def ssend(self, obj: Any, dest: int, tag: int = 0) -> None:
        self.issend(obj, dest, tag).Wait()

    def bsend(self, obj: Any, dest: int, tag: int = 0) -> None:
        data = self._pickled(obj, dest)
        if data is None:
            Comm.bsend(self, obj, dest, tag)
        else:
            Comm.Bsend(self, data, dest, tag)

    isend = _starting(Comm.isend, Comm.Isend)
    issend = _starting(Comm.issend, Comm.Issend)
    ibsend = _starting(Comm.ibsend, Comm.Ibsend)

    # Receives

    def recv(
        self,
        buf: Buffer | None = None,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Any:
        if buf is not None:
            warnings.warn("the 'buf' argument is deprecated", UserWarning, stacklevel=2)
            return self.irecv(buf, source, tag).wait(status)
        return self.mprobe(source, tag).recv(status)

    def irecv(
        self, buf: Buffer | None = None, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Request:
        if not carries_status(self, source):
            request = Comm.irecv(self, buf, source, tag)
            return Request.of(request, shadow_receive(self, source), None)
        buffer = mpi.buffer.allocate(1 + _capacity(buf))
        request = Comm.Irecv(self, (buffer, len(buffer), mpi.BYTE), source, tag)
        return Request.of(request, ObjectReceive(buffer), None)

    def sendrecv(
        self,
        sendobj: Any,
        dest: int,
        sendtag: int = 0,
        recvbuf: Buffer | None = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Any:
        sending = self.isend(sendobj, dest, sendtag)
        received = self.recv(recvbuf, source, recvtag, status)
        sending.Wait()
        return received

    # Probes

    probe = BufferCalls.Probe
    iprobe = BufferCalls.Iprobe
    mprobe = matching(blocking=True, pickled=True)
    improbe = matching(blocking=False, pickled=True)


def _capacity(buf: Any) -> int:
    """Returns the bytes of pickle that a receive into ``buf`` accepts, as in mpi4py."""
    if buf is None:
        return int(getattr(mpi4py.rc, "irecv_bufsz", 32768))
    try:
        return operator.index(buf)
    except TypeError:
        return mpi.buffer.frombuffer(buf).nbytes
