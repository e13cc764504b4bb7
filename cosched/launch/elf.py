"""Reads the dynamic libraries that an ELF file needs, without running it.

It reads the same parts as the loader: program headers, the dynamic section and its string
table. For a file that is not ELF, is cut short or is damaged the result is None, which is
never an error. pyelftools is not used: its import takes 50 ms of each cosched-run.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_NT_GNU_BUILD_ID = 3
_DT_NULL, _DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 0, 1, 5, 10, 15, 29
_SECTION_MAX = 1 << 24


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
            return _Reader(file, path).read()
    except (OSError, struct.error, ValueError, OverflowError):
        return None


def build_id(path: Path) -> bytes:
    """Returns the build id that the linker wrote into ``path``; empty if there is none."""
    try:
        with path.open("rb") as file:
            return _Reader(file, path).build_id()
    except (OSError, struct.error, ValueError, OverflowError):
        return b""


class _Reader:
    """Reads one open file; ValueError or struct.error if it is damaged."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        ident = self._at(0, 16)
        if ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise ValueError("not ELF")
        self._wide = ident[4] == 2
        self._order = "<" if ident[5] == 1 else ">"

    def read(self) -> Elf:
        loads: list[tuple[int, int, int]] = []
        dynamic: tuple[int, int] | None = None
        for kind, offset, address, size in self._segments():
            if kind == _PT_LOAD:
                loads.append((address, offset, size))
            elif kind == _PT_DYNAMIC:
                dynamic = (offset, size)
        if dynamic is None:
            return Elf(self._path, (), (), ())
        entries = self._dynamic(*dynamic)
        single = dict(reversed(entries))
        strings = b""
        if _DT_STRTAB in single:
            offset = _file_offset(loads, single[_DT_STRTAB])
            strings = self._at(offset, single.get(_DT_STRSZ, 0))

        def text(where: int) -> str:
            return os.fsdecode(strings[where : strings.index(b"\0", where)])

        def paths(tag: int) -> tuple[str, ...]:
            return tuple(text(single[tag]).split(":")) if tag in single else ()

        needed = tuple(text(value) for tag, value in entries if tag == _DT_NEEDED)
        return Elf(self._path, needed, paths(_DT_RPATH), paths(_DT_RUNPATH))

    def build_id(self) -> bytes:
        for kind, offset, _, size in self._segments():
            if kind != _PT_NOTE:
                continue
            notes = self._at(offset, size)
            at = 0
            while at + 12 <= size:
                names, length, type_ = struct.unpack_from(self._order + "III", notes, at)
                name_end = at + 12 + names
                start = name_end + -names % 4
                if type_ == _NT_GNU_BUILD_ID and notes[at + 12 : name_end] == b"GNU\0":
                    return notes[start : start + length]
                at = start + length + -length % 4
        return b""

    def _at(self, offset: int, size: int) -> bytes:
        if size > _SECTION_MAX:
            raise ValueError("section too large")
        self._file.seek(offset)
        data = self._file.read(size)
        if len(data) < size:
            raise ValueError("file cut short")
        return data

    def _segments(self) -> Iterator[tuple[int, int, int, int]]:
        """Yields (kind, offset, address, size in the file) of each segment."""
        if self._wide:
            header = struct.unpack(self._order + "HHIQQQIHHHHHH", self._at(16, 48))
            layout = self._order + "IIQQQQQQ"
        else:
            header = struct.unpack(self._order + "HHIIIIIHHHHHH", self._at(16, 36))
            layout = self._order + "IIIIIIII"
        start, size, count = header[4], header[8], header[9]
        for index in range(count):
            fields = struct.unpack_from(layout, self._at(start + index * size, size))
            if self._wide:
                kind, _, offset, address, _, file_size = fields[:6]
            else:
                kind, offset, address, _, file_size = fields[:5]
            yield kind, offset, address, file_size

    def _dynamic(self, offset: int, size: int) -> list[tuple[int, int]]:
        layout = self._order + ("QQ" if self._wide else "II")
        width = struct.calcsize(layout)
        data = self._at(offset, size - size % width)
        entries: list[tuple[int, int]] = []
        for tag, value in struct.iter_unpack(layout, data):
            if tag == _DT_NULL:
                break
            entries.append((tag, value))
        return entries


def _file_offset(loads: list[tuple[int, int, int]], address: int) -> int:
    for start, offset, size in loads:
        if start <= address < start + size:
            return offset + address - start
    raise ValueError("address outside of every segment")
