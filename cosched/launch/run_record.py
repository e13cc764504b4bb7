"""Keeps the user's record of runs: how long each job was scheduled that succeeded.

One JSON object a line, in a file of the user's state directory. ``COSCHED_RUNS`` names
another file, or ``off``. An invalid line, such as one of another version, is ignored.

Launchers that end together take turns by a lock of the file. A file that other users own
or can write is neither read nor written: they could set the order of this user's jobs.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from cosched.core.decoding import JsonDecoder, Malformed, parse_integer
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


class _Line(TypedDict):
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
    return _decoded(_lines(path))


def read_useful_runs(path: Path, like: Likeness) -> list[PastRun]:
    """Returns the runs that predict a job best, in the order of their ends: all that are
    equal to it, otherwise all of its program. Raises CoschedError as ``read_runs``."""
    lines = _lines(path)
    program = _json(like.program)
    return list(_alike(lines, like)) or _decoded(line for line in lines if program in line)


def _lines(path: Path) -> list[bytes]:
    try:
        with _opened(path, os.O_RDONLY) as descriptor:
            return _last(descriptor, FILE_BYTES).splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None


def _decoded(lines: Iterable[bytes]) -> list[PastRun]:
    return [run for run in map(_decode, lines) if run is not None]


def _alike(lines: Iterable[bytes], like: Likeness) -> Iterator[PastRun]:
    """Yields the runs of a likeness. Their lines begin with the same bytes, so none has to
    be decoded, which most starts of a job could not wait for."""
    begin = _line_of(PastRun(like, 0)).removesuffix(b"0}")
    for line in lines:
        if line.startswith(begin) and line.endswith(b"}"):
            with contextlib.suppress(Malformed):
                text = line[len(begin) : -1]
                yield PastRun(like, parse_integer(text, "", 1, LENGTH_MAX_NS))


def _decode(line: bytes) -> PastRun | None:
    try:
        read = _decoder.decode(line)
    except Malformed:
        return None
    length_ns = read["length_ns"]
    if read["cosched_runs"] != VERSION or not 0 < length_ns <= LENGTH_MAX_NS:
        return None
    return PastRun(Likeness(read["program"], read["args"], read["ranks"]), length_ns)


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
    if not all(map(_is_text, (like.program, *like.args))):
        return None
    data = _line_of(run) + b"\n"
    return data if len(data) <= LINE_BYTES else None


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _line_of(run: PastRun) -> bytes:
    like = run.likeness
    line = _Line(
        cosched_runs=VERSION,
        program=like.program,
        args=like.args,
        ranks=like.ranks,
        length_ns=run.length_ns,
    )
    return _json(line)


def _json(value: object) -> bytes:
    """Returns a value as JSON. Names that are no text become bytes that no line has."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")


@contextlib.contextmanager
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
