"""Packs data of any datatype into bytes and unpacks it."""

from __future__ import annotations

from mpi4py import MPI as mpi

from mpi_shim.wrapper.data.spec import Span


class Packed:
    """The user's data as the bytes that MPI sends for its datatype. This is so if all nodes
    represent data alike, which the shim requires."""

    def __init__(self, span: Span) -> None:
        self._nbytes = span.nbytes
        # MPI_Pack takes no absolute addresses, only distances from an anchor.
        self._anchor = mpi.buffer.allocate(1)
        distance = span.address - self._anchor.address
        struct = mpi.Datatype.Create_struct([span.entries], [distance], [span.datatype])
        self._datatype = struct.Create_resized(0, 1).Commit()
        struct.Free()

    def take(self) -> mpi.buffer:
        """Returns a copy of the data. To be called once."""
        row = self._pack()
        self._datatype.Free()
        return row

    def bring_back(self, data: mpi.buffer) -> None:
        """Puts received data where it belongs. To be called once. A short message leaves
        the rest as it was."""
        row = self._pack()
        row[: len(data)] = data
        self._datatype.Unpack(row, 0, self._anchor, mpi.COMM_SELF)
        self._datatype.Free()

    def _pack(self) -> mpi.buffer:
        row = mpi.buffer.allocate(self._nbytes)
        self._datatype.Pack(self._anchor, row, 0, mpi.COMM_SELF)
        return row
