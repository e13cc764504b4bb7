"""Appends lines to a file of bounded size.

When the file has half of the allowed bytes, it replaces the previous file, and a new one
begins. A file whose lines belong to several users is different: then the previous file gets
the lines that ``choose`` keeps of both. They are read line by line, because the memory for
both files would stay with the process."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct


class FilePair(Struct, frozen=True):
    """The directory and name of the two files, and the most bytes of both together.

    The last write before a change of files may exceed the limit.
    """

    directory: Path  #: the folder of both files
    name: str  #: the start of both names, before ``.jsonl`` or ``.1.jsonl``
    limit_bytes: int  #: the most bytes of both together

    @property
    def current(self) -> Path:
        return self.directory / f"{self.name}.jsonl"

    @property
    def previous(self) -> Path:
        return self.directory / f"{self.name}.1.jsonl"

    @property
    def files(self) -> list[Path]:
        """Returns the existing files, oldest first; none in a folder that is closed to this
        user."""
        return [path for path in (self.previous, self.current) if os.path.exists(path)]

    def lines(self) -> Iterator[bytes]:
        """Yields the lines of both files, oldest first."""
        for path in self.files:
            with path.open("rb") as file:
                yield from file

    def finish_change(self) -> None:
        """Ends a change of files that a killed daemon began.

        It had put the kept lines of both files into the current one, so that has the first
        kept line of the previous one.
        """
        if len(self.files) == 2:
            with self.current.open("rb") as current, self.previous.open("rb") as previous:
                first = current.readline()
                changing = first in previous
            if changing:
                self.current.replace(self.previous)


#: Yields the lines to keep within so many bytes. The first argument yields all lines each
#: time that it is called, oldest first.
Choose = Callable[[Callable[[], Iterator[bytes]], int], Iterable[bytes]]


class BoundedFile:
    """Appends to ``place.current``. Every method may raise OSError.

    ``header`` returns the first lines of each file, and of each continued file. Without
    ``choose`` the newest lines are kept.
    """

    def __init__(
        self,
        place: FilePair,
        header: Callable[[], bytes] = bytes,
        choose: Choose | None = None,
    ) -> None:
        self._place = place
        self._header = header
        self._choose = choose
        self._fd = -1
        try:
            if choose is not None:
                place.finish_change()
            self._open()
            self._make_room()
        except OSError:
            self.close()
            raise

    def append(self, lines: bytes) -> None:
        """Writes whole lines with one write."""
        self._write(lines)
        self._make_room()

    def drop(self, is_old: Callable[[bytes], bool]) -> None:
        """Removes the oldest lines, up to the first one that is not old. It writes nothing
        if there is none. Only for a file with ``choose``."""
        assert self._choose is not None
        choose, oldest = self._choose, next(self._place.lines(), None)
        if oldest is None or not is_old(oldest):
            return

        def of_young(read: Callable[[], Iterator[bytes]], most: int) -> Iterable[bytes]:
            return choose(lambda: itertools.dropwhile(is_old, read()), most)

        self._change_files(of_young)

    def close(self) -> None:
        """Closes the file; a second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self) -> None:
        # Not through a link: other users may be able to write in the directory.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(self._place.current, flags, 0o600)
        self._size = os.fstat(self._fd).st_size
        # A killed daemon or a full disk may have left half a line.
        if self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self._size = os.pread(self._fd, self._size, 0).rfind(b"\n") + 1
            os.ftruncate(self._fd, self._size)
        self._write(self._header())

    def _write(self, data: bytes) -> None:
        if os.write(self._fd, data) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(data)

    def _make_room(self) -> None:
        if self._size > self._place.limit_bytes // 2:
            self._change_files(self._choose)

    def _change_files(self, choose: Choose | None) -> None:
        self.close()
        if choose is not None:
            self._write_previous(choose)
        self._place.current.replace(self._place.previous)
        self._open()

    def _write_previous(self, choose: Choose) -> None:
        """Puts the lines to keep of both files into the current one, as a whole."""
        fresh = self._place.directory / f"{self._place.name}.new.jsonl"
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(fresh, flags, 0o600), "wb") as file:
            file.writelines(choose(self._place.lines, self._place.limit_bytes // 2))
        fresh.replace(self._place.current)
