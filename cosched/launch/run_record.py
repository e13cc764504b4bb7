"""Keeps the user's record of runs: how long each job was scheduled that succeeded.

One JSON object a line, in a file of the user's state directory. ``COSCHED_RUNS`` names
another file, or ``off``. An invalid line, such as one of another version, is ignored.

Launchers that end together take turns by a lock of the file. A file that other users own
or can write is neither read nor written: they could set the order of this user's jobs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cosched.core.decoding import JsonDecoder, Malformed
from cosched.core.errors import CoschedError
from cosched.core.expectation import Likeness, PastRun
from cosched.core.units import LENGTH_MAX_NS
from cosched.linux.homes import state_home

VARIABLE = "COSCHED_RUNS"
OFF = "off"
VERSION = 1
#: Above this size the older half of the file is dropped.
FILE_BYTES = 1024 * 1024
#: A longer line is not written. Such runs would soon push out all others.
LINE_BYTES = 64 * 1024
#: How long a launcher waits for the lock, and how often it tries.
LOCK_S = 1.0
RETRY_S = 0.01
#: Errors of file systems without locks.
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    cosched_runs: int
    program: str
    args: tuple[str, ...]
    ranks: int | None
    length_ns: int


_decoder: JsonDecoder[_Line] = JsonDecoder(_Line, "a run", FILE_BYTES)


def record_of_runs(environ: Mapping[str, str]) -> Path | None:
    """Returns the file; None if there is none: ``off``, or a user without a home."""
    text = environ.get(VARIABLE, "")
    if text == OFF:
        return None
    if text:
        return Path(text).absolute()
    base = state_home(environ)
    return base / "cosched" / "runs.jsonl" if base else None


def read_runs(path: Path) -> list[PastRun]:
    """Returns the runs in the file, in the order of their ends; none if there is no file.

    Raises CoschedError if the file cannot be read."""
    try:
        with _opened(path, os.O_RDONLY) as descriptor:
            data = _last(descriptor, FILE_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    runs = [_decode(line) for line in data.splitlines()]
    return [run for run in runs if run is not None]


def _decode(line: bytes) -> PastRun | None:
    try:
        read = _decoder.decode(line)
    except Malformed:
        return None
    if read.cosched_runs != VERSION or not 0 < read.length_ns <= LENGTH_MAX_NS:
        return None
    return PastRun(Likeness(read.program, read.args, read.ranks), read.length_ns)


def add_run(path: Path, run: PastRun) -> None:
    """Adds a run at the end. Raises CoschedError if the file cannot be written."""
    line = _encode(run)
    if line is None:
        return
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
            _lock(descriptor, path)
            _append(descriptor, line)
    except OSError as error:
        raise CoschedError(f"{error.filename or path}: {error.strerror}") from None


def _encode(run: PastRun) -> bytes | None:
    """Returns the line of a run; None for names that are no text, and for long ones."""
    like = run.likeness
    line = _Line(
        cosched_runs=VERSION,
        program=like.program,
        args=like.args,
        ranks=like.ranks,
        length_ns=run.length_ns,
    )
    try:
        data = msgspec.json.encode(line) + b"\n"
    except UnicodeEncodeError:
        return None
    return data if len(data) <= LINE_BYTES else None


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    """Opens the file. Raises CoschedError unless it is a file of this user alone."""
    # Without O_NONBLOCK a FIFO would keep the job waiting.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise CoschedError(f"{path}: not a regular file")
        if status.st_uid != os.geteuid():
            raise CoschedError(f"{path}: belongs to another user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise CoschedError(f"{path}: other users can write it; use chmod go-w")
        yield descriptor
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: Path) -> None:
    """Waits for the file's lock; it ends with the descriptor."""
    deadline = time.monotonic() + LOCK_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise CoschedError(f"{path}: another process has it locked") from None
            time.sleep(RETRY_S)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            raise


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    if size + len(line) > FILE_BYTES:
        size = _drop_older_half(descriptor)
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line  # the writer of the last line was killed
    try:
        _write(descriptor, line, size)
    except OSError:
        os.ftruncate(descriptor, size)  # as before; the disk is full
        raise


def _drop_older_half(descriptor: int) -> int:
    """Moves the newer half to the beginning; returns the new size."""
    kept = _last(descriptor, FILE_BYTES // 2)
    # In this order, a killed process leaves some lines twice, and loses none.
    _write(descriptor, kept, 0)
    os.ftruncate(descriptor, len(kept))
    return len(kept)


def _last(descriptor: int, count: int) -> bytes:
    """Returns the whole lines in the last ``count`` bytes of the file."""
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, count, max(0, size - count))
    return data if size <= count else data.partition(b"\n")[2]


def _write(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
