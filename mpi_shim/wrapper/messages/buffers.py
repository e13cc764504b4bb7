"""Makes point-to-point calls on buffers: mpi4py's upper-case methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from mpi4py import MPI as mpi
from mpi4py.typing import Buffer, BufSpec

from mpi_shim.wrapper.data.spec import nbytes_of, parse
from mpi_shim.wrapper.messages import attached_buffer
from mpi_shim.wrapper.messages.exchange_halves import (
    copied,
    copied_plainly,
    exchange,
    start_receive_beside,
)
from mpi_shim.wrapper.messages.matched import matching
from mpi_shim.wrapper.messages.transfer import (
    carries_status,
    make_persistent_receive,
    make_persistent_send,
    receive,
    send,
    send_buffered,
    start_receive,
    start_send,
)
from mpi_shim.wrapper.requests.operations import hide_status_byte
from mpi_shim.wrapper.requests.request import Prequest, Request
from mpi_shim.wrapper.requests.shadow_operations import (
    ShadowSend,
    send_status_first,
    shadow_receive,
    uses_shadow,
)
from mpi_shim.wrapper.status.peers import peers_of
from mpi_shim.wrapper.task.link import task

ANY_SOURCE, ANY_TAG = mpi.ANY_SOURCE, mpi.ANY_TAG
Comm = mpi.Comm


class BufferCalls(mpi.Comm):
    """Upper-case point-to-point methods: the status travels with each message."""

    _wrapped = True

    # Sends

    def _before_send(self, message: BufSpec, dest: int) -> bool:
        """Returns whether a message to ``dest`` has a status byte in front. A status that
        travels beside the message is sent now."""
        if dest != mpi.PROC_NULL and uses_shadow(self):
            send_status_first(self, dest, nbytes_of(message))
        return carries_status(self, dest)

    def _send(
        self,
        block: Callable[..., None],
        start: Callable[..., mpi.Request],
        buf: BufSpec,
        dest: int,
        tag: int,
    ) -> None:
        send(
            lambda spec: block(self, spec, dest, tag),
            lambda spec: start(self, spec, dest, tag),
            buf,
            self._before_send(buf, dest),
        )

    def _start_send(
        self, start: Callable[..., mpi.Request], buf: BufSpec, dest: int, tag: int
    ) -> Request:
        return start_send(
            lambda spec: start(self, spec, dest, tag), buf, self._before_send(buf, dest)
        )

    def Send(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        self._send(Comm.Send, Comm.Isend, buf, dest, tag)

    def Ssend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        self.Issend(buf, dest, tag).Wait()

    def Rsend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        self._send(Comm.Rsend, Comm.Irsend, buf, dest, tag)

    def Bsend(self, buf: BufSpec, dest: int, tag: int = 0) -> None:
        send_buffered(
            lambda spec: Comm.Bsend(self, spec, dest, tag),
            buf,
            self._before_send(buf, dest),
        )

    def Isend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request:
        return self._start_send(Comm.Isend, buf, dest, tag)

    def Issend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request:
        return self._start_send(Comm.Issend, buf, dest, tag)

    def Irsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request:
        return self._start_send(Comm.Irsend, buf, dest, tag)

    def Ibsend(self, buf: BufSpec, dest: int, tag: int = 0) -> Request:
        return self._start_send(Comm.Ibsend, buf, dest, tag)

    # Receives

    def Recv(
        self,
        buf: BufSpec,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> None:
        receive(
            lambda spec, mine: Comm.Recv(self, spec, source, tag, mine),
            lambda spec: Comm.Irecv(self, spec, source, tag),
            buf,
            carries_status(self, source),
            status,
            shadow_receive(self, source),
        )

    def Irecv(self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG) -> Request:
        return start_receive(
            lambda spec: Comm.Irecv(self, spec, source, tag),
            buf,
            carries_status(self, source),
            shadow_receive(self, source),
        )

    # Both

    def Sendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec | None = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> None:
        # mpi4py accepts None for a receive from PROC_NULL.
        incoming: BufSpec = recvbuf
        receiving = self.Irecv(incoming, source, recvtag)
        self._finish_exchange(receiving, sendbuf, dest, sendtag, status)

    def _finish_exchange(
        self,
        receiving: Request,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int,
        status: mpi.Status | None,
    ) -> None:
        self._send_half(receiving, sendbuf, dest, sendtag).Wait()
        receiving.Wait(status)

    def _send_half(
        self, receiving: Request, sendbuf: BufSpec, dest: int, tag: int
    ) -> Request:
        """Starts the send. If that fails, cancels the receive."""
        try:
            return self.Isend(sendbuf, dest, tag)
        except BaseException:
            receiving.Cancel()
            receiving.Wait()
            raise

    def Sendrecv_replace(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> None:
        if not carries_status(self, ANY_SOURCE):
            self._replace_plainly(buf, dest, sendtag, source, recvtag, status)
            return
        if not (carries_status(self, dest) and carries_status(self, source)):
            # Only one of the two messages exists: no copy is needed.
            self.Sendrecv(buf, dest, sendtag, buf, source, recvtag, status)
            return
        span = parse(buf, writable=True)
        copy = span.copy()
        if copy is not None:
            outgoing = (copy.keep, copy.entries, copy.datatype)
            self.Sendrecv(outgoing, dest, sendtag, buf, source, recvtag, status)
            return
        receiving = start_receive_beside(
            lambda spec: Comm.Irecv(self, spec, source, recvtag), span
        )
        self._finish_exchange(receiving, buf, dest, sendtag, status)

    def _replace_plainly(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int,
        source: int,
        recvtag: int,
        status: mpi.Status | None,
    ) -> None:
        """Sendrecv_replace without a status byte. The library's own does not pause."""
        waits = task.waits and mpi.PROC_NULL not in (dest, source)
        copy = copied_plainly(buf) if waits else None
        if copy is not None:
            self.Sendrecv(copy, dest, sendtag, buf, source, recvtag, status)
            return
        self._before_send(buf, dest)
        mine = mpi.Status() if status is None else status
        Comm.Sendrecv_replace(self, buf, dest, sendtag, source, recvtag, mine)
        beside = shadow_receive(self, source)
        if beside is not None:
            beside.complete(mine)

    def Isendrecv(
        self,
        sendbuf: BufSpec,
        dest: int,
        sendtag: int = 0,
        recvbuf: BufSpec | None = None,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        if not carries_status(self, ANY_SOURCE):
            self._before_send(sendbuf, dest)
            return Request(
                Comm.Isendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
            )
        outgoing = sendbuf if dest == mpi.PROC_NULL else copied(sendbuf, "Isendrecv")
        return self._start_exchange(outgoing, dest, sendtag, recvbuf, source, recvtag)

    def Isendrecv_replace(
        self,
        buf: BufSpec,
        dest: int,
        sendtag: int = 0,
        source: int = ANY_SOURCE,
        recvtag: int = ANY_TAG,
    ) -> Request:
        if not carries_status(self, ANY_SOURCE):
            self._before_send(buf, dest)
            return Request(
                Comm.Isendrecv_replace(self, buf, dest, sendtag, source, recvtag)
            )
        outgoing = buf if dest == mpi.PROC_NULL else copied(buf, "Isendrecv_replace")
        return self._start_exchange(outgoing, dest, sendtag, buf, source, recvtag)

    def _start_exchange(
        self,
        outgoing: BufSpec,
        dest: int,
        sendtag: int,
        incoming: BufSpec,
        source: int,
        recvtag: int,
    ) -> Request:
        receiving = self.Irecv(incoming, source, recvtag)
        return exchange(receiving, self._send_half(receiving, outgoing, dest, sendtag))

    # Probes

    def Probe(
        self,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> Literal[True]:
        task.wait(
            lambda: Comm.Iprobe(self, source, tag, status),
            lambda: Comm.Probe(self, source, tag, status),
        )
        if status is not None and carries_status(self, source):
            hide_status_byte(status)
        return True

    def Iprobe(
        self,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: mpi.Status | None = None,
    ) -> bool:
        found = task.look(lambda: Comm.Iprobe(self, source, tag, status))
        if found and status is not None and carries_status(self, source):
            hide_status_byte(status)
        return found

    Mprobe = matching(blocking=True, pickled=False)
    Improbe = matching(blocking=False, pickled=False)

    # Persistent requests

    def _make_send(
        self, make: Callable[..., mpi.Request], buf: BufSpec, dest: int, tag: int
    ) -> Prequest:
        beside = None
        if dest != mpi.PROC_NULL and uses_shadow(self):
            beside = ShadowSend(peers_of(self).rank(dest), nbytes_of(buf))
        return make_persistent_send(
            lambda spec: make(self, spec, dest, tag),
            buf,
            carries_status(self, dest),
            beside,
        )

    def Send_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest:
        return self._make_send(Comm.Send_init, buf, dest, tag)

    def Ssend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest:
        return self._make_send(Comm.Ssend_init, buf, dest, tag)

    def Rsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest:
        return self._make_send(Comm.Rsend_init, buf, dest, tag)

    def Bsend_init(self, buf: BufSpec, dest: int, tag: int = 0) -> Prequest:
        return self._make_send(Comm.Bsend_init, buf, dest, tag)

    def Recv_init(
        self, buf: BufSpec, source: int = ANY_SOURCE, tag: int = ANY_TAG
    ) -> Prequest:
        return make_persistent_receive(
            lambda spec: Comm.Recv_init(self, spec, source, tag),
            buf,
            carries_status(self, source),
            shadow_receive(self, source, persistent=True),
        )

    # The buffer of buffered sends

    def Attach_buffer(self, buf: Buffer | None) -> None:
        attached_buffer.attach(self.handle, lambda b: Comm.Attach_buffer(self, b), buf)

    def Detach_buffer(self) -> Buffer | None:
        return attached_buffer.detach(self.handle, lambda: Comm.Detach_buffer(self))
