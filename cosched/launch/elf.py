"""Reads the dynamic libraries that an ELF file needs, without running it.

For a file that is not ELF, is cut short or is damaged the result is None, which is never
an error: the program then starts without the knowledge of its MPI.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.construct import ConstructError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.segments import NoteSegment

#: The errors that pyelftools raises for damaged files.
_DAMAGED = (
    ELFError,
    ConstructError,
    OSError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    AssertionError,
    OverflowError,
)


@dataclass(frozen=True, slots=True)
class Elf:
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
            return _read_dynamic(ELFFile(file), path)
    except _DAMAGED:
        return None


def _read_dynamic(file: ELFFile, path: Path) -> Elf:
    names: dict[str, list[str]] = {"needed": [], "rpath": [], "runpath": []}
    dynamic = (one for one in file.iter_segments() if isinstance(one, DynamicSegment))
    for segment in dynamic:
        for tag in segment.iter_tags():
            kind = str(tag.entry.d_tag).removeprefix("DT_").lower()
            if kind in names:
                text = str(getattr(tag, kind))
                names[kind] += [text] if kind == "needed" else text.split(":")
    return Elf(path, *(tuple(names[kind]) for kind in ("needed", "rpath", "runpath")))


def build_id(path: Path) -> bytes:
    """Returns the build id that the linker wrote into ``path``; empty if there is none."""
    try:
        with path.open("rb") as file:
            segments = ELFFile(file).iter_segments()
            for segment in (one for one in segments if isinstance(one, NoteSegment)):
                for note in segment.iter_notes():
                    if note["n_type"] == "NT_GNU_BUILD_ID":
                        return bytes.fromhex(note["n_desc"])
    except _DAMAGED:
        return b""
    return b""
