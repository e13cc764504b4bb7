"""Reads the dynamic libraries that an ELF file needs, without running it.

For a file that is not ELF, is cut short or is damaged the result is None, which is never
an error: the program then starts without the knowledge of its MPI.

Each start of a job reads such files. So this reads the program headers alone, and what they
point at; a library for all of ELF takes longer to import than the job to start.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosched.core.named_tuples import NamedTuple

#: Kinds of segments, entries of the dynamic section, and the kind of a note (elf(5)).
_LOAD, _DYNAMIC, _NOTE = 1, 2, 4
_END, _NEEDED, _STRINGS, _RPATH, _RUNPATH = 0, 1, 5, 15, 29
_BUILD_ID = 3
#: The most bytes of one table and of one text. A longer one is damaged.
_TABLE_MOST = 1 << 22
_TEXT_MOST = 1 << 16


class Elf(NamedTuple):
    """The dynamic section of an ELF file."""

    path: Path  #: the file
    #: The names of the libraries that it loads; (): a static program.
    needed: tuple[str, ...]
    #: Directories to search before LD_LIBRARY_PATH, if ``runpath`` is empty.
    rpath: tuple[str, ...]
    runpath: tuple[str, ...]  #: directories to search after LD_LIBRARY_PATH

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
            if os.path.isfile(candidate):
                return candidate
        return None

    def _expanded(self, entries: tuple[str, ...]) -> Iterator[Path]:
        origin = os.path.dirname(os.path.realpath(self.path))
        for entry in entries:
            yield Path(entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) or ".")


def read_elf(path: Path) -> Elf | None:
    """Reads ``path`` as the loader does; None if it is not a well-formed ELF file."""
    try:
        with _File(path) as file:
            found = _read_dynamic(file)
    except (OSError, _Damaged):
        return None
    needed = found.get(_NEEDED, [])
    rpath, runpath = (
        tuple(entry for text in found.get(kind, []) for entry in text.split(":"))
        for kind in (_RPATH, _RUNPATH)
    )
    return Elf(path, tuple(needed), rpath, runpath)


def build_id(path: Path) -> bytes:
    """Returns the build id that the linker wrote into ``path``; empty if there is none."""
    try:
        with _File(path) as file:
            for segment in file.segments(_NOTE):
                for kind, name, content in _notes(file, segment):
                    if kind == _BUILD_ID and name == b"GNU\0":
                        return content
    except (OSError, _Damaged):
        return b""
    return b""


class _Damaged(Exception):
    """The file is not ELF, is cut short, or contradicts itself."""


class _Segment(NamedTuple):
    kind: int
    offset: int  #: its place in the file
    address: int  #: its place in memory
    size: int  #: its bytes in the file
    align: int


class _File:
    """An open ELF file, and its program headers. Raises OSError and ``_Damaged``."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._read_headers()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._descriptor)

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Returns exactly so many bytes."""
        if not 0 <= offset < 1 << 62 or not 0 <= size <= _TABLE_MOST:
            raise _Damaged
        data = os.pread(self._descriptor, size, offset)
        if len(data) != size:
            raise _Damaged
        return data

    def segments(self, kind: int) -> Iterator[_Segment]:
        return (each for each in self._segments if each.kind == kind)

    def text_at(self, address: int) -> str:
        """Returns the text at a place in memory."""
        data = os.pread(self._descriptor, _TEXT_MOST, self._offset_of(address))
        text, end, _ = data.partition(b"\0")
        if not end:
            raise _Damaged
        return os.fsdecode(text)

    def _offset_of(self, address: int) -> int:
        for segment in self.segments(_LOAD):
            if 0 <= address - segment.address < segment.size:
                offset = segment.offset + address - segment.address
                if offset < 1 << 62:
                    return offset
        raise _Damaged

    def _read_headers(self) -> None:
        ident = self.bytes_at(0, 16)
        if ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise _Damaged
        wide, self.order = ident[4] == 2, "<" if ident[5] == 1 else ">"
        self.word = "Q" if wide else "I"
        header = struct.Struct(f"{self.order}HHI3{self.word}I6H")
        values = header.unpack(self.bytes_at(16, header.size))
        offset, each, count = values[4], values[8], values[9]
        form = struct.Struct(self.order + ("II6Q" if wide else "8I"))
        if count and each < form.size:
            raise _Damaged
        table = self.bytes_at(offset, each * count)
        self._segments = []
        for at in range(0, each * count, each or 1):
            found = form.unpack_from(table, at)
            if wide:
                kind, _, begin, address, _, size, _, align = found
            else:
                kind, begin, address, _, size, _, _, align = found
            self._segments.append(_Segment(kind, begin, address, size, align))


def _read_dynamic(file: _File) -> dict[int, list[str]]:
    """Returns the texts of the dynamic section by the kind of its entries."""
    found: dict[int, list[str]] = {}
    entry = struct.Struct(f"{file.order}2{file.word}")
    for segment in file.segments(_DYNAMIC):
        data = file.bytes_at(segment.offset, segment.size // entry.size * entry.size)
        entries = []
        for kind, value in entry.iter_unpack(data):
            if kind == _END:
                break
            entries.append((kind, value))
        strings = next((value for kind, value in entries if kind == _STRINGS), 0)
        for kind, value in entries:
            if kind in (_NEEDED, _RPATH, _RUNPATH):
                found.setdefault(kind, []).append(file.text_at(strings + value))
    return found


def _notes(file: _File, segment: _Segment) -> Iterator[tuple[int, bytes, bytes]]:
    """Yields kind, name and content of each note."""
    data = file.bytes_at(segment.offset, segment.size)
    head, at = struct.Struct(f"{file.order}3I"), 0
    align = 8 if segment.align == 8 else 4
    while at + head.size <= len(data):
        name_size, size, kind = head.unpack_from(data, at)
        name_at = at + head.size
        content_at = -(-(name_at + name_size) // align) * align
        end = content_at + size
        yield kind, data[name_at : name_at + name_size], data[content_at:end]
        at = -(-end // align) * align
