"""Keeps the status bytes at addresses that MPI may use for an unlimited time.

A non-blocking call passes addresses to MPI and returns. The program may drop its request
object before the transfer is over. The bytes that MPI reads and writes must therefore
outlive each Python object: their memory is never freed. A byte to receive into is used
again. The byte of a receive that never completes is lost, which costs little.
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
        """The status in it: 1 while the sender is scheduled."""
        return self._cell[0]

    @value.setter
    def value(self, byte: int) -> None:
        self._cell[0] = byte


class StatusBytes:
    """All status bytes of the process; their memory comes from MPI at the first use.
    Several threads may take and give back: each is one operation on a list."""

    def __init__(self) -> None:
        self._free: list[Slot] = []
        self._constant: tuple[int, int] | None = None

    def sending(self, status: int) -> int:
        """Returns the address of a byte that always holds ``status`` (0 or 1)."""
        if self._constant is None:
            pair = mpi.Alloc_mem(2)
            pair[0], pair[1] = 0, 1
            self._constant = (pair.address, pair.address + 1)
        return self._constant[status]

    def take(self) -> Slot:
        """Returns a byte that no other transfer uses."""
        try:
            return self._free.pop()
        except IndexError:
            slab = mpi.Alloc_mem(SLAB_BYTES)
            self._free += [Slot(slab[i : i + 1]) for i in range(1, SLAB_BYTES)]
            return Slot(slab[0:1])

    def give_back(self, slot: Slot) -> None:
        """Takes back a byte that MPI no longer uses."""
        self._free.append(slot)


status_bytes = StatusBytes()
