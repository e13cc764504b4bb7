"""Writes solutions to files and reads them back, in the three ways of BTIO.

epio    each rank has a file of its own, and writes it by one call a solution.
simple  all ranks share a file; each line of points along x is a call of its own.
full    all ranks share a file; one collective call a solution writes all lines of a rank,
        which its file type lists.

A shared file has [solution][z][y][x][value] of the whole cube. A file of one rank has the
lines of the rank, in the same order. The published program's file type for full joins a
subarray for each cell. Here the cells of a rank may share planes (``multipartition``), and
MPI wants a file type in the order of the file: it lists the same lines, sorted.

Files are of mode 0600 and have a name that is not in use. Limit: a rank that a signal ends
leaves its file.
"""

from __future__ import annotations

import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

from benchmarks.npb.fluid.cell import VALUES

if TYPE_CHECKING:
    from benchmarks.npb.fluid.adi import Adi
    from benchmarks.npb.link import Link

Array = NDArray[np.float64]
#: Is called before each call that writes, with the bytes that this rank moves to the disk.
Request = Callable[[int], None]
ITEM = np.dtype(np.float64).itemsize


class Line(NamedTuple):
    """The points of a cell along x."""

    start: int  #: place of its first number in a solution of the whole cube
    values: Array  #: the numbers, where the cell has them


def lines_of(adi: Adi) -> list[Line]:
    """Returns the lines of this rank's cells in the order of a shared file."""
    edge, found = adi.size.edge, []
    for cell in adi.cells:
        first_x, first_y, first_z = cell.first
        points = cell.planes(cell.u, 0, 0, cell.points[0])
        for z, plane in enumerate(points, first_z):
            for y, line in enumerate(plane, first_y):
                found.append(Line(VALUES * ((z * edge + y) * edge + first_x), line))
    return sorted(found, key=lambda line: line.start)


class SolutionFile(ABC):
    """The solutions in a file. All calls are made by all ranks, and raise CoschedError on
    all of them if one fails."""

    def __init__(self, link: Link, adi: Adi, path: Path, request: Request) -> None:
        self._link, self._path, self._request = link, path, request
        self._lines = lines_of(adi)
        self._whole = VALUES * adi.size.edge**3
        #: Numbers of a solution that are this rank's.
        self._own = sum(values.size for _, values in self._lines)
        with link.together(str(path)):
            self._open()

    def write(self, number: int) -> None:
        """Writes the present state as this solution, counted from 0."""
        with self._link.together(str(self._path)):
            self._write(number)

    def checksum(self) -> int:
        """Returns a checksum of this rank's present state."""
        found = 0
        for _, values in self._lines:
            found = crc32(values.data.cast("B"), found)
        return found

    def read(self, number: int) -> None:
        """Makes a solution of the file the present state."""
        with self._link.together(str(self._path)):
            self._read(number)

    def reopen(self) -> None:
        """Closes and opens the file, so that all ranks read what the others wrote."""
        with self._link.together(str(self._path)):
            self._close()
            self._open()

    def close(self) -> None:
        """Closes the file, if it is open."""
        with self._link.together(str(self._path)):
            self._close()

    @abstractmethod
    def _open(self) -> None: ...

    @abstractmethod
    def _write(self, number: int) -> None: ...

    @abstractmethod
    def _read(self, number: int) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    def _packed(self) -> Array:
        """Returns a copy of all lines, one after the other."""
        return np.concatenate([line.values.ravel() for line in self._lines])

    def _unpack(self, packed: Array) -> None:
        start = 0
        for _, values in self._lines:
            values[...] = packed[start : start + values.size].reshape(values.shape)
            start += values.size


class OwnFile(SolutionFile):
    """EPIO: a file for each rank."""

    _file: io.BufferedRandom

    def _open(self) -> None:
        self._file = self._path.open("r+b")

    def _write(self, number: int) -> None:
        packed = self._packed()
        self._request(packed.nbytes)
        self._file.seek(number * packed.nbytes)
        self._file.write(packed.data)
        self._file.flush()

    def _read(self, number: int) -> None:
        packed = np.empty(self._own)
        self._file.seek(number * packed.nbytes)
        _check(self._file.readinto(packed.data.cast("B")), packed)
        self._unpack(packed)

    def _close(self) -> None:
        self._file.close()


class LinesFile(SolutionFile):
    """SIMPLE: a shared file, and an independent call for each line."""

    _file: MPI.File

    def _open(self) -> None:
        self._file = self._link.open_file(self._path, MPI.MODE_RDWR)

    def _write(self, number: int) -> None:
        for start, values in self._lines:
            self._request(values.nbytes)
            self._file.Write_at(self._place(number, start), values)

    def _read(self, number: int) -> None:
        status = MPI.Status()
        for start, values in self._lines:
            self._file.Read_at(self._place(number, start), values, status)
            _check(status.Get_count(MPI.BYTE), values)

    def _close(self) -> None:
        if self._file:
            self._file.Close()

    def _place(self, number: int, start: int) -> int:
        return ITEM * (number * self._whole + start)


class CollectiveFile(SolutionFile):
    """FULL: a shared file, and a collective call for each solution."""

    _file: MPI.File
    _kind: MPI.Datatype
    #: Bytes of a solution that this rank moves to the disk for all ranks.
    _moved: int

    def _open(self) -> None:
        lengths = [values.size for _, values in self._lines]
        starts = [start for start, _ in self._lines]
        listed = MPI.DOUBLE.Create_indexed(lengths, starts)
        self._kind = listed.Create_resized(0, ITEM * self._whole).Commit()
        listed.Free()
        self._file = self._link.open_file(self._path, MPI.MODE_RDWR)
        self._file.Set_view(0, MPI.DOUBLE, self._kind, "native")
        writers = self._writers()
        is_writer = self._link.rank < writers
        self._moved = ITEM * self._whole // writers if is_writer else 0

    def _writers(self) -> int:
        """Returns how many ranks write for all of them, as the MPI library has decided; the
        first ranks do so. It is 1 where the library does not tell."""
        info = self._file.Get_info()
        found = info.Get("cb_nodes")
        info.Free()
        if found is None or not found.isdecimal():
            return 1
        return min(max(1, int(found)), self._link.ranks)

    def _write(self, number: int) -> None:
        packed = self._packed()
        self._request(self._moved)
        self._file.Write_at_all(number * packed.size, packed)

    def _read(self, number: int) -> None:
        packed, status = np.empty(self._own), MPI.Status()
        self._file.Read_at_all(number * packed.size, packed, status)
        _check(status.Get_count(MPI.BYTE), packed)
        self._unpack(packed)

    def _close(self) -> None:
        if self._file:
            self._file.Close()
            self._kind.Free()


def _check(count: int, wanted: Array) -> None:
    if count != wanted.nbytes:
        raise OSError(f"{count} of {wanted.nbytes} bytes read; something cut the file")


def _no_request(_: int) -> None:
    """Asks nothing of the disk before a write."""


#: The ways to write, by their names on the command line.
WAYS: Mapping[str, type[SolutionFile]] = {
    "epio": OwnFile,
    "simple": LinesFile,
    "full": CollectiveFile,
}


@contextmanager
def solution_file(
    way: str, link: Link, adi: Adi, folder: Path, request: Request = _no_request
) -> Iterator[SolutionFile]:
    """Makes an empty file, or one for each rank, in a folder; removes it at the end."""
    with ExitStack() as stack:
        path = Path()
        with link.together(str(folder)):
            if way == "epio" or link.rank == 0:
                descriptor, name = tempfile.mkstemp(prefix="npb-btio-", dir=folder)
                path = Path(name)
                stack.callback(path.unlink, missing_ok=True)
                os.close(descriptor)
        if way != "epio":
            path = Path(link.first_of(str(path)))
        file = WAYS[way](link, adi, path, request)
        stack.callback(file.close)
        yield file
