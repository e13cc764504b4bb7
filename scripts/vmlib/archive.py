"""Writes an initramfs: an archive in the "newc" format of cpio.

The kernel unpacks several such archives that follow each other, so that a large one
can be kept and a small one appended. Format: an ASCII header of 110 bytes, the name,
the data, each padded to four bytes; documented in the kernel's
Documentation/driver-api/early-userspace/buffer-format.rst.

Invariants: a path is written once, after its parents; everything belongs to root;
symbolic links of the host, also among the parents of a file, are kept as links.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ALIGNMENT = 4
MAX_LINKS = 40


@dataclass(frozen=True)
class Entry:
    """Describes one member of an archive."""

    mode: int  #: file type and permissions, as in ``st_mode``
    mtime: int = 0  #: in seconds of the Unix clock
    data: bytes = b""  #: the content, or a link's target; empty if ``source`` has it
    source: Path | None = None  #: the host's file with the content; None: ``data`` has it


class Archive:
    """Members by their path inside, without the leading slash."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    def directory(self, path: str, mode: int = 0o755) -> None:
        """Make a directory of our own."""
        self._put(path, Entry(stat.S_IFDIR | mode))

    def text(self, path: str, text: str, mode: int = 0o644) -> None:
        """Make a file of our own."""
        self._put(path, Entry(stat.S_IFREG | mode, data=text.encode()))

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link of our own."""
        self._put(path, Entry(stat.S_IFLNK | 0o777, data=target.encode()))

    def mirror(self, path: Path) -> None:
        """Bring in a file, link or empty directory of the host, and what it leads to."""
        for step in _steps(path):
            name = str(step).lstrip("/")
            if name in self.entries:
                continue
            try:
                status = step.lstat()
            except FileNotFoundError:
                return  # it went away, or a link that leads nowhere
            if stat.S_ISLNK(status.st_mode):
                target = os.fsencode(os.readlink(step))
                self.entries[name] = Entry(stat.S_IFLNK | 0o777, data=target)
            elif stat.S_ISDIR(status.st_mode):
                self.entries[name] = Entry(stat.S_IFDIR | 0o755)
            elif stat.S_ISREG(status.st_mode):
                self.entries[name] = Entry(
                    status.st_mode, int(status.st_mtime), source=step
                )

    def mirror_tree(self, top: Path, keep: Callable[[Path], bool]) -> None:
        """Bring in all below a directory that ``keep`` says yes to."""
        for parent, folders, files in os.walk(top):
            here = Path(parent)
            folders[:] = sorted(f for f in folders if keep(here / f))
            self.mirror(here)
            for name in sorted(files):
                if keep(here / name):
                    self.mirror(here / name)

    def sources(self) -> Iterator[Path]:
        """Files of the host that the archive holds."""
        return (e.source for e in self.entries.values() if e.source is not None)

    def fingerprint(self) -> str:
        """A name for the contents: changes with any path, mode, size or time.

        But not with byte code, which follows from its source.
        """
        digest = hashlib.sha256()
        for name, entry in sorted(self.entries.items()):
            if name.endswith((".pyc", "__pycache__")):
                continue
            if entry.source is None:
                mark = f"{name}\0{entry.mode}\0".encode() + entry.data
            else:
                status = entry.source.stat()
                state = f"{status.st_size}\0{status.st_mtime_ns}"
                mark = f"{name}\0{entry.mode}\0{state}".encode()
            digest.update(mark + b"\n")
        return digest.hexdigest()[:16]

    def write(self, out: IO[bytes]) -> None:
        """Write all members, and the trailer that ends an archive."""
        for number, (name, entry) in enumerate(sorted(self.entries.items()), 1):
            try:
                data = entry.data if entry.source is None else entry.source.read_bytes()
            except FileNotFoundError:
                continue  # someone works in the tree
            _write_member(out, number, name, entry, data)
        _write_member(out, 0, "TRAILER!!!", Entry(mode=0), b"")

    def _put(self, path: str, entry: Entry) -> None:
        name = path.strip("/")
        parent = os.path.dirname(name)
        if parent and parent not in self.entries:
            self.directory(parent)
        self.entries[name] = entry


def _steps(path: Path) -> Iterator[Path]:
    """Every directory and link on the way to a file, links before their targets."""
    rest = list(Path(os.path.abspath(path)).parts[1:])
    here = Path("/")
    links = 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            here = here.parent
            continue
        step = here / part
        yield step
        if not step.is_symlink():
            here = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(f"{path}: too many symbolic links")
        target = os.readlink(step)
        rest = [p for p in Path(target).parts if p != "/"] + rest
        if target.startswith("/"):
            here = Path("/")


def _write_member(
    out: IO[bytes], number: int, name: str, entry: Entry, data: bytes
) -> None:
    raw = os.fsencode(name) + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    owner = devices = (0, 0)
    fields = (
        *(number, entry.mode, *owner, links, entry.mtime, len(data)),
        *(*devices, *devices, len(raw), 0),
    )
    header = b"070701" + b"".join(b"%08X" % field for field in fields)
    out.write(header + raw)
    _pad(out, len(header) + len(raw))
    out.write(data)
    _pad(out, len(data))


def _pad(out: IO[bytes], length: int) -> None:
    out.write(b"\0" * (-length % ALIGNMENT))
