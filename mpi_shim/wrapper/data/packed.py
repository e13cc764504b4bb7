"""Data of any datatype to and from a row of bytes, wherever the datatype leads."""

from __future__ import annotations

from mpi4py import MPI as mpi

from mpi_shim.wrapper.data.spec import Span


class Packed:
    """The user's data as a row of bytes: that is what MPI sends for the datatype, where
    all nodes are of one kind, as this shim requires anyhow."""

    def __init__(self, span: Span) -> None:
        self._nbytes = span.nbytes
        # MPI takes no absolute addresses here, but distances from an anchor.
        self._anchor = mpi.buffer.allocate(1)
        distance = span.address - self._anchor.address
        struct = mpi.Datatype.Create_struct([span.entries], [distance], [span.datatype])
        self._datatype = struct.Create_resized(0, 1).Commit()
        struct.Free()

    def take(self) -> mpi.buffer:
        """A copy of the data, once."""
        row = self._pack()
        self._datatype.Free()
        return row

    def bring_back(self, data: mpi.buffer) -> None:
        """Puts what was received where it belongs, once. A short message leaves the rest
        as it was."""
        row = self._pack()
        row[: len(data)] = data
        self._datatype.Unpack(row, 0, self._anchor, mpi.COMM_SELF)
        self._datatype.Free()

    def _pack(self) -> mpi.buffer:
        row = mpi.buffer.allocate(self._nbytes)
        self._datatype.Pack(self._anchor, row, 0, mpi.COMM_SELF)
        return row
