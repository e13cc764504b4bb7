"""Keeps the user's record of runs: how long each job was scheduled that succeeded.

One JSON object a line, in a file of the user's state directory. ``COSCHED_RUNS`` names
another file, or ``off``. An invalid line, such as one of another version, is ignored.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cosched.core.errors import CoschedError
from cosched.core.likeness import Likeness, PastRun
from cosched.core.node.settings import LENGTH_MAX_NS
from cosched.linux.homes import state_home

VARIABLE = "COSCHED_RUNS"
OFF = "off"
VERSION = 1
#: Above this size the older half of the file is dropped.
FILE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    cosched_runs: int
    program: str
    args: tuple[str, ...]
    ranks: int | None
    length_ns: int


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
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    runs = [_decode(line) for line in data.splitlines()]
    return [run for run in runs if run is not None]


def _decode(line: bytes) -> PastRun | None:
    try:
        read = msgspec.json.decode(line, type=_Line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if read.cosched_runs != VERSION or not 0 < read.length_ns <= LENGTH_MAX_NS:
        return None
    return PastRun(Likeness(read.program, read.args, read.ranks), read.length_ns)


def add_run(path: Path, run: PastRun) -> None:
    """Adds a run at the end. Raises CoschedError if the file cannot be written."""
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
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_size + len(data) > FILE_BYTES:
                _drop_older_half(descriptor)
            file.write(data)
    except OSError as error:
        raise CoschedError(f"{path}: {error.strerror}") from None
    except UnicodeEncodeError:
        return  # a name that is no text cannot be recorded


def _drop_older_half(descriptor: int) -> None:
    size = os.fstat(descriptor).st_size
    kept = os.pread(descriptor, size, size - FILE_BYTES // 2).partition(b"\n")[2]
    os.ftruncate(descriptor, 0)
    os.write(descriptor, kept)
