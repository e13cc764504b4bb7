"""Does the wrapper's work when a request starts and completes.

A receive must remove the status byte: read it, report the arrival, and hide the byte in the
count that the program sees. A send has nothing left to do. A persistent request starts and
completes many times.
"""

from __future__ import annotations

from typing import Any

from mpi4py import MPI as mpi

from mpi_shim.wrapper.data.packed import Packed
from mpi_shim.wrapper.errors import UnprefixedMessageError
from mpi_shim.wrapper.status.prefix_bytes import Slot, status_bytes
from mpi_shim.wrapper.task.link import task


class Operation:
    """One transfer. ``active``: it has started and has not completed."""

    persistent = False

    def __init__(self) -> None:
        self.active = True

    def result(self, found: Any) -> Any:
        """Returns the object that the transfer brought. mpi4py itself ``found`` one."""
        return found

    def start(self) -> None:
        """Prepares the next start of a persistent request."""
        self.active = True

    def adjust(self, status: mpi.Status) -> None:
        """Corrects the status of a request that completed but was not waited for."""

    def complete(self, status: mpi.Status) -> None:
        """Does what is left after the request completed with this status."""
        self.active = False

    def release(self) -> None:
        """Gives back what no further start needs. Does nothing while active."""


class _WithSlot(Operation):
    """A transfer with a status byte of its own (``Slot``)."""

    def __init__(self, slot: Slot) -> None:
        super().__init__()
        self._slot: Slot | None = slot

    def release(self) -> None:
        if self._slot is not None and not self.active:
            status_bytes.give_back(self._slot)
            self._slot = None


class PersistentSend(_WithSlot):
    """A persistent send: each start sends the status of that moment."""

    persistent = True

    def __init__(self, slot: Slot, nbytes: int) -> None:
        super().__init__(slot)
        self.active = False
        self._nbytes = nbytes

    def start(self) -> None:
        super().start()
        if self._slot is not None:
            self._slot.value = task.status()
        task.count_sent(self._nbytes)


class PrefixedReceive(Operation):
    """A receive of a message with a status byte in front."""

    def adjust(self, status: mpi.Status) -> None:
        if self.active:
            hide_status_byte(status)

    def complete(self, status: mpi.Status) -> None:
        if self.active:
            self.active = False
            self._deliver(status)

    def _deliver(self, status: mpi.Status) -> None:
        """Reports the arrival and puts the data where it belongs."""
        raise NotImplementedError


class Receive(_WithSlot, PrefixedReceive):
    """A receive into the user's memory; MPI puts the status byte into a slot."""

    def __init__(self, slot: Slot, *, persistent: bool = False) -> None:
        super().__init__(slot)
        self.active = not persistent
        self.persistent = persistent

    def _deliver(self, status: mpi.Status) -> None:
        byte = 0 if self._slot is None else self._slot.value
        if not self.persistent:
            self.release()
        report_arrival(status, byte)


class ObjectReceive(PrefixedReceive):
    """A receive of a pickled object into a buffer of the wrapper."""

    def __init__(self, buffer: mpi.buffer) -> None:
        super().__init__()
        self._buffer = buffer
        self._result: Any = None

    def result(self, found: Any) -> Any:
        return self._result

    def _deliver(self, status: mpi.Status) -> None:
        nbytes = report_arrival(status, self._buffer[0] if len(self._buffer) else 0)
        if nbytes > 0:
            self._result = mpi.pickle.loads(self._buffer[1 : 1 + nbytes])


class PackedReceive(PrefixedReceive):
    """A receive into a buffer of the wrapper, for memory that is still being sent from. The
    data goes to the user's memory when all of it has arrived."""

    def __init__(self, room: mpi.buffer, packed: Packed) -> None:
        super().__init__()
        self._room, self._packed = room, packed

    def _deliver(self, status: mpi.Status) -> None:
        nbytes = report_arrival(status, self._room[0])
        self._packed.bring_back(self._room[1 : 1 + nbytes])


def hide_status_byte(status: mpi.Status) -> None:
    """Makes ``status`` count the user's bytes alone."""
    total = status.Get_elements(mpi.BYTE)
    if total > 0 and not status.Is_cancelled():
        status.Set_elements(mpi.BYTE, total - 1)


def report_arrival(status: mpi.Status, byte: int) -> int:
    """Reports a received message to the task and corrects its status.

    Returns the number of the user's bytes. Raises UnprefixedMessageError if the message has
    no status byte.
    """
    if status.Is_cancelled():
        return 0
    nbytes = status.Get_elements(mpi.BYTE) - 1
    if nbytes < 0 or byte > 1:
        task.count_foreign()
        raise UnprefixedMessageError(status.Get_source(), status.Get_tag())
    status.Set_elements(mpi.BYTE, nbytes)
    task.arrived(byte, nbytes)
    return nbytes


# Transfers that the program dropped while MPI may still write into the wrapper's memory.
_orphans: list[object] = []


def adopt_orphan(owner: object) -> None:
    """Keeps the memory of an active transfer until the process ends."""
    _orphans.append(owner)
