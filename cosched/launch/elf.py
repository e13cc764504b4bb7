"""Reads the dynamic libraries that an ELF file needs, without running it.

For a file that is not ELF, is cut short or is damaged the result is None, which is never
an error: the program then starts without the knowledge of its MPI. Sections are not read,
since a stripped program has none. Files with more than 65,534 segments are not supported.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAGIC = b"\x7fELF"
_IDENT_BYTES = 16
#: The file header after the identification: 32 and 64 bits wide.
_HEADERS = {1: "HHIIIIIHHH", 2: "HHIQQQIHHH"}
#: A program header: type, (flags,) offset, address, -, size in the file, ...
_SEGMENTS = {1: ("IIIIIIII", (0, 1, 2, 4, 7)), 2: ("IIQQQQQQ", (0, 2, 3, 5, 7))}
#: An entry of the dynamic section: tag, value.
_ENTRIES = {1: "iI", 2: "qQ"}
_ORDERS = {1: "<", 2: ">"}
_NOTE = "III"
#: No string of a dynamic section is longer than a path.
_LONGEST_STRING = 4096
#: Far more than a program's dynamic section or notes have.
_LARGEST_PART = 1 << 20

_LOAD, _DYNAMIC, _NOTES = 1, 2, 4
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_GNU_BUILD_ID = 3


class _DamagedError(ValueError):
    """The file is not ELF, is cut short, or points outside of itself."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment: its kind, its place in the file and in memory, its bytes in the file."""

    kind: int
    offset: int
    address: int
    size: int
    align: int


class _ElfFile:
    """An open ELF file. Raises _DamagedError where ``file`` is not one."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        ident = self._read(0, _IDENT_BYTES)
        width, order = ident[4], ident[5]
        if not ident.startswith(_MAGIC) or width not in _HEADERS or order not in _ORDERS:
            raise _DamagedError("not an ELF file")
        self._order = _ORDERS[order]
        self._width = width
        header = self._unpack(_HEADERS[width], _IDENT_BYTES)
        self.segments = self._read_segments(header[4], header[8], header[9])

    def dynamic(self) -> Iterator[tuple[int, int]]:
        """Yields tag and value of each dynamic entry."""
        entry = struct.Struct(self._order + _ENTRIES[self._width])
        for segment in self._of_kind(_DYNAMIC):
            data = self._content(segment)
            for at in range(0, len(data) - entry.size + 1, entry.size):
                tag, value = entry.unpack_from(data, at)
                if tag == 0:
                    break
                yield tag, value

    def text_at(self, address: int) -> str:
        """Returns the string that the loader has at an address of memory."""
        data = self._read_some(self._place(address), _LONGEST_STRING)
        text, end, _ = data.partition(b"\0")
        if not end:
            raise _DamagedError("a string without an end")
        return os.fsdecode(text)

    def notes(self) -> Iterator[tuple[bytes, int, bytes]]:
        """Yields owner, type and content of each note."""
        head = struct.Struct(self._order + _NOTE)
        for segment in self._of_kind(_NOTES):
            data, at = self._content(segment), 0
            align = 8 if segment.align == 8 else 4
            while at + head.size <= len(data):
                name_size, size, kind = head.unpack_from(data, at)
                name_at = at + head.size
                at = _aligned(name_at + name_size, align)
                yield data[name_at : name_at + name_size], kind, data[at : at + size]
                at = _aligned(at + size, align)

    def _read_segments(self, at: int, size: int, number: int) -> tuple[_Segment, ...]:
        layout, fields = _SEGMENTS[self._width]
        entry = struct.Struct(self._order + layout)
        if number and size < entry.size:
            raise _DamagedError("its program headers are too short")
        found = []
        for index in range(number):
            values = entry.unpack(self._read(at + index * size, entry.size))
            found.append(_Segment(*(values[field] for field in fields)))
        return tuple(found)

    def _of_kind(self, kind: int) -> Iterator[_Segment]:
        return (segment for segment in self.segments if segment.kind == kind)

    def _content(self, segment: _Segment) -> bytes:
        if segment.size > _LARGEST_PART:
            raise _DamagedError("a part is too large")
        return self._read(segment.offset, segment.size)

    def _place(self, address: int) -> int:
        """Returns where in the file the content of an address is."""
        for segment in self._of_kind(_LOAD):
            if segment.address <= address < segment.address + segment.size:
                return segment.offset + address - segment.address
        raise _DamagedError("an address that is not loaded")

    def _unpack(self, layout: str, at: int) -> tuple[int, ...]:
        form = struct.Struct(self._order + layout)
        return form.unpack(self._read(at, form.size))

    def _read(self, at: int, size: int) -> bytes:
        data = self._read_some(at, size)
        if len(data) < size:
            raise _DamagedError("the file is cut short")
        return data

    def _read_some(self, at: int, size: int) -> bytes:
        try:
            self._file.seek(at)
        except OverflowError:
            raise _DamagedError("a place outside of the file") from None
        return self._file.read(size)


def _aligned(at: int, to: int) -> int:
    return -(-at // to) * to


_DAMAGED = (_DamagedError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Elf:
    """The dynamic section of ``path``. A static program needs no library."""

    path: Path
    needed: tuple[str, ...]
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]

    def search_path(self, environ: Mapping[str, str]) -> Iterator[Path]:
        """Yields the directories that the loader searches before its cache."""
        if not self.runpath:
            yield from self._expanded(self.rpath)
        for entry in environ.get("LD_LIBRARY_PATH", "").replace(";", ":").split(":"):
            if entry:
                yield Path(entry)
        yield from self._expanded(self.runpath)

    def find(self, library: str, environ: Mapping[str, str]) -> Path | None:
        """Returns the file of ``library`` if it is in the search path."""
        for directory in self.search_path(environ):
            candidate = directory / library
            if candidate.is_file():
                return candidate
        return None

    def _expanded(self, entries: tuple[str, ...]) -> Iterator[Path]:
        origin = os.path.dirname(os.path.realpath(self.path))
        for entry in entries:
            yield Path(entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) or ".")


def read_elf(path: Path) -> Elf | None:
    """Reads ``path`` as the loader does; None if it is not a well-formed ELF file."""
    try:
        with path.open("rb") as file:
            return _read_dynamic(_ElfFile(file), path)
    except _DAMAGED:
        return None


def _read_dynamic(file: _ElfFile, path: Path) -> Elf:
    entries = list(file.dynamic())
    strings = dict(entries).get(_STRINGS, 0)

    def texts(wanted: int) -> list[str]:
        return [file.text_at(strings + at) for tag, at in entries if tag == wanted]

    def directories(wanted: int) -> tuple[str, ...]:
        return tuple(entry for text in texts(wanted) for entry in text.split(":"))

    return Elf(path, tuple(texts(_NEEDED)), directories(_RPATH), directories(_RUNPATH))


def build_id(path: Path) -> bytes:
    """Returns the build id that the linker wrote into ``path``; empty if there is none."""
    try:
        with path.open("rb") as file:
            for owner, kind, content in _ElfFile(file).notes():
                if owner == b"GNU\0" and kind == _GNU_BUILD_ID:
                    return content
    except _DAMAGED:
        return b""
    return b""
