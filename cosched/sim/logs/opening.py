"""Opens a log, plain or compressed, from a file or a pipe."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from cosched.core.errors import CoschedError

_GZIP, _BZIP2, _XZ = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00"
_BOM = b"\xef\xbb\xbf"
#: The beginning of a file that cannot be read, and what to do about it.
_REFUSED = {
    b"\xff\xfe": "is text in UTF-16; convert it with: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "is text in UTF-16; convert it with: iconv -f UTF-16 -t UTF-8",
    b"\x28\xb5\x2f\xfd": "is compressed by zstd; pipe it: zstd -dc FILE | ... /dev/stdin",
    b"\x1f\x9d": "is compressed by compress; pipe it: zcat FILE | ... /dev/stdin",
    b"PK\x03\x04": "is a zip archive; pipe it: unzip -p FILE | ... /dev/stdin",
}
_LONGEST_MAGIC = 6


def log_name(path: Path) -> str:
    """Returns the name of a log without its suffixes."""
    name = path.name
    for suffix in (".gz", ".bz2", ".xz", ".swf"):
        name = name.removesuffix(suffix)
    return name


class _Joined(io.RawIOBase):
    """Bytes that were read already, and the file behind them; a pipe cannot go back."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head = head
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, into: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self._head[: len(into)] or self._file.read(len(into))
        self._head = self._head[len(data) :]
        into[: len(data)] = data
        return len(data)


def _joined(head: bytes, file: IO[bytes]) -> IO[bytes]:
    return io.BufferedReader(_Joined(head, file), 1 << 16)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Yields the log's bytes, without a byte order mark. Raises CoschedError for a file
    that cannot be read, also while it is read."""
    try:
        with path.open("rb") as file:
            head = file.read(_LONGEST_MAGIC)
            plain = _unpacked(head, _joined(head, file))
            begin = plain.read(_LONGEST_MAGIC)
            for magic, problem in _REFUSED.items():
                if begin.startswith(magic):
                    raise CoschedError(f"{path}: {problem}")
            if b"\0" in begin:
                raise CoschedError(f"{path}: is not text")
            yield _joined(begin.removeprefix(_BOM), plain)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise CoschedError(f"{path}: the compressed data is damaged ({error})") from error
    except OSError as error:
        if error.strerror is None:  # of bz2
            raise CoschedError(
                f"{path}: the compressed data is damaged ({error})"
            ) from error
        raise CoschedError(f"{path}: cannot be read ({error.strerror})") from error


def _unpacked(head: bytes, file: IO[bytes]) -> IO[bytes]:
    if head.startswith(_GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=file))
    if head.startswith(_BZIP2):
        return bz2.BZ2File(file)
    return lzma.LZMAFile(file) if head.startswith(_XZ) else file
