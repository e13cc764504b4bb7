"""The status bytes, at addresses that MPI may use for as long as it likes.

A non-blocking call hands MPI addresses and returns. The program may drop its request
object before the transfer is over, so the bytes that MPI reads and writes must outlive
every Python object: they live in memory that is never given back. Bytes to receive into
are used again; the one of a receive that never completed is lost, which is cheap.
"""

from __future__ import annotations

from mpi4py import MPI as mpi

SLAB_BYTES = 256


class Slot:
    """One byte to receive a status into, or to send one from."""

    __slots__ = ("_cell", "address")

    def __init__(self, cell: mpi.buffer) -> None:
        self._cell = cell
        self.address = cell.address

    @property
    def value(self) -> int:
        return self._cell[0]

    @value.setter
    def value(self, byte: int) -> None:
        self._cell[0] = byte


class StatusBytes:
    """All status bytes of the process; memory comes from MPI on first use. Threads may
    take and give back at once: both are single operations on a list."""

    def __init__(self) -> None:
        self._free: list[Slot] = []
        self._constant: tuple[int, int] | None = None

    def sending(self, status: int) -> int:
        """The address of a byte that holds ``status`` (0 or 1) for ever."""
        if self._constant is None:
            pair = mpi.Alloc_mem(2)
            pair[0], pair[1] = 0, 1
            self._constant = (pair.address, pair.address + 1)
        return self._constant[status]

    def take(self) -> Slot:
        """A byte of one's own."""
        try:
            return self._free.pop()
        except IndexError:
            slab = mpi.Alloc_mem(SLAB_BYTES)
            self._free += [Slot(slab[i : i + 1]) for i in range(1, SLAB_BYTES)]
            return Slot(slab[0:1])

    def give_back(self, slot: Slot) -> None:
        """Only a byte that MPI has no further use for."""
        self._free.append(slot)


status_bytes = StatusBytes()
