"""What is left to do when a request completes: the wrapper's half of a request.

A receive must take the status byte off: read it, tell the task what arrived, and hide
the byte in the count that the program sees. A send has nothing left to do. A persistent
request may go round many times.
"""

from __future__ import annotations

from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper.data.packed import Packed
from mpi_shim.wrapper.errors import UnprefixedMessageError
from mpi_shim.wrapper.status.prefix_bytes import Slot, status_bytes
from mpi_shim.wrapper.task.link import task


def hide_status_byte(status: mpi.Status) -> None:
    """Makes ``status`` count the user's bytes alone."""
    total = status.Get_elements(mpi.BYTE)
    if total > 0 and not status.Is_cancelled():
        status.Set_elements(mpi.BYTE, total - 1)


class Operation:
    """One transfer. ``active`` between its start and its completion."""

    persistent = False

    def __init__(self) -> None:
        self.active = True

    def result(self, found: Any) -> Any:
        """The object that the transfer brought; mpi4py itself ``found`` this one."""
        return found

    def start(self) -> None:
        """Before a persistent request is started once more."""
        self.active = True

    def adjust(self, status: mpi.Status) -> None:
        """Corrects the status of a request that has completed but was not waited for."""

    def complete(self, status: mpi.Status) -> None:
        """After the request completed, with the status it completed with."""
        self.active = False

    def release(self) -> None:
        """Gives back what no further round needs; not while active."""


class Send(Operation):
    """A persistent send: its status byte is chosen anew at each start."""

    persistent = True

    def __init__(self, slot: Slot, nbytes: int) -> None:
        self.active = False
        self._slot: Slot | None = slot
        self._nbytes = nbytes

    def start(self) -> None:
        super().start()
        if self._slot is not None:
            self._slot.value = task.status()
        task.count_sent(self._nbytes)

    def release(self) -> None:
        if self._slot is not None and not self.active:
            status_bytes.give_back(self._slot)
            self._slot = None


class Receive(Operation):
    """A receive into the user's memory; the status byte goes into a slot beside it."""

    def __init__(self, slot: Slot, *, persistent: bool = False) -> None:
        self.active = not persistent
        self.persistent = persistent
        self._slot: Slot | None = slot

    def adjust(self, status: mpi.Status) -> None:
        if self.active:
            hide_status_byte(status)

    def complete(self, status: mpi.Status) -> None:
        if not self.active:
            return
        self.active = False
        byte = 0 if self._slot is None else self._slot.value
        if not self.persistent:
            self.release()
        note_arrival(status, byte)

    def release(self) -> None:
        if self._slot is not None and not self.active:
            status_bytes.give_back(self._slot)
            self._slot = None


class ObjectReceive(Operation):
    """A receive of a pickled object into a buffer of the wrapper's."""

    def __init__(self, buffer: mpi.buffer) -> None:
        super().__init__()
        self._buffer = buffer
        self._result: Any = None

    def result(self, found: Any) -> Any:
        return self._result

    def adjust(self, status: mpi.Status) -> None:
        if self.active:
            hide_status_byte(status)

    def complete(self, status: mpi.Status) -> None:
        if not self.active:
            return
        self.active = False
        byte = self._buffer[0] if len(self._buffer) else 0
        nbytes = note_arrival(status, byte)
        if nbytes > 0:
            self._result = mpi.pickle.loads(self._buffer[1 : 1 + nbytes])


class PackedReceive(Operation):
    """A receive into a room of the wrapper's, from where the data goes to the user's
    memory when all is there: for memory that is still being sent from."""

    def __init__(self, room: mpi.buffer, packed: Packed) -> None:
        super().__init__()
        self._room, self._packed = room, packed

    def adjust(self, status: mpi.Status) -> None:
        if self.active:
            hide_status_byte(status)

    def complete(self, status: mpi.Status) -> None:
        if not self.active:
            return
        self.active = False
        nbytes = note_arrival(status, self._room[0])
        self._packed.bring_back(self._room[1 : 1 + nbytes])


def note_arrival(status: mpi.Status, byte: int) -> int:
    """Reports a received message to the task, corrects its status, returns the user's
    bytes. Raises UnprefixedMessageError if nobody put a status byte in front of it."""
    if status.Is_cancelled():
        return 0
    nbytes = status.Get_elements(mpi.BYTE) - 1
    if nbytes < 0 or byte > 1:
        task.count_foreign()
        raise UnprefixedMessageError(status.Get_source(), status.Get_tag())
    status.Set_elements(mpi.BYTE, nbytes)
    task.arrived(byte, nbytes)
    return nbytes


# Transfers that were given up while MPI may still write into the wrapper's memory.
_orphans: list[object] = []


def adopt_orphan(owner: object) -> None:
    """Keeps the memory of an active transfer for the life of the process."""
    _orphans.append(owner)
