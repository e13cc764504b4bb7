"""Replaces the buffer of buffered sends by a larger one.

The program sizes its buffer for its own messages, and each grows by the status byte. At
most ``size // BSEND_OVERHEAD`` messages fit into the buffer at a time, and alignment rounds
each of them up once. This gives the size of the replacement. The program gets its own
buffer back when it detaches.
"""

from __future__ import annotations

from collections.abc import Callable

from mpi4py import MPI as mpi
from mpi4py.typing import Buffer

from mpi_shim.wrapper.task.link import task

GROWTH_BYTES = 16  # of one message: the status byte, rounded up

# The program's buffers by communicator handle; None: the buffer of the process.
_attached: dict[int | None, Buffer] = {}


def attach(
    key: int | None, raw: Callable[[Buffer | None], None], buf: Buffer | None
) -> None:
    """Attaches ``buf``, or a larger replacement."""
    if not task.prefix or buf is None or buf is mpi.BUFFER_AUTOMATIC:
        raw(buf)
        return
    size = mpi.buffer.frombuffer(buf).nbytes
    raw(mpi.buffer.allocate(replacement_bytes(size)))
    _attached[key] = buf


def detach(key: int | None, raw: Callable[[], Buffer | None]) -> Buffer | None:
    """Detaches the buffer and returns the one that the program attached."""
    detached = raw()
    return _attached.pop(key, detached)


def replacement_bytes(size: int) -> int:
    """Returns the bytes of the replacement for a buffer of ``size`` bytes."""
    messages = size // max(mpi.BSEND_OVERHEAD, 1) + 1
    return size + messages * GROWTH_BYTES


def attach_process_buffer(buf: Buffer | None) -> None:
    """``MPI.Attach_buffer``."""
    attach(None, mpi.Attach_buffer, buf)


def detach_process_buffer() -> Buffer | None:
    """``MPI.Detach_buffer``."""
    return detach(None, mpi.Detach_buffer)
