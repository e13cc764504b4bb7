"""Prepares the standard streams of a program, and writes all that it is given.

A user may close a stream (``>&-``). Another process may share a stream and make it
non-blocking, as Node.js and ssh do: then a write takes a part of the data, or nothing.
"""

from __future__ import annotations

import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

#: What Python puts into LC_CTYPE in a locale without characters beyond ASCII (PEP 538).
_COERCED = ("C.UTF-8", "C.utf8", "UTF-8")


def begin() -> None:
    """Prepares this process; each program of cosched calls it first.

    Descriptors 0 to 2 that are closed become /dev/null, so that no file or socket gets
    their numbers. Text for stdout and stderr arrives in full, or the write raises OSError.
    The environment is that of the caller.
    """
    for descriptor in range(3):
        _open_if_closed(descriptor)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115
    if sys.stdout is None or sys.stdout is sys.__stdout__:
        sys.stdout = _whole(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        sys.stderr = _whole(_Reports(2, "w", closefd=False), sys.stderr)
    _forget_coerced_locale()


def write_some(descriptor: int, data: ReadableBuffer) -> int:
    """Writes the first bytes of ``data``, which is not empty; waits for room. Returns how
    many were written. Raises BrokenPipeError if no process reads them."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            room = select.poll()
            room.register(descriptor, select.POLLOUT)
            room.poll()


class Unwritten(CoschedError):
    """Output cannot be written."""


class Unread(Unwritten):
    """No process reads the output any more (``cosched status | head``). click would end
    with status 1 on a BrokenPipeError."""


def unwritten(what: str, error: OSError) -> Unwritten:
    """Returns the error of a write as one that a command reports."""
    kind = Unread if isinstance(error, BrokenPipeError) else Unwritten
    return kind(f"{what}: {error.strerror}")


class _Whole(io.FileIO):
    """A descriptor that takes all bytes of each write."""

    def write(self, data: ReadableBuffer) -> int:
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            rest = rest[write_some(self.fileno(), rest) :]
        return size


class _Output(_Whole):
    """The same for stdout. One write raises the error; later ones write nothing."""

    _failed = False

    def write(self, data: ReadableBuffer) -> int:
        if self._failed:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except OSError as error:
            self._failed = True
            raise unwritten("standard output", error) from None


class _Reports(_Whole):
    """The same for stderr. A report that cannot be written ends no work."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _open_if_closed(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
        os.set_inheritable(descriptor, True)


def _whole(raw: _Whole, before: TextIO | None) -> TextIO:
    """Returns a text stream like ``before``, if there is one. Characters that its encoding
    lacks are written as escapes."""
    old = before if isinstance(before, io.TextIOWrapper) else None
    errors = "backslashreplace"
    if old is not None and old.errors is not None and old.errors != "strict":
        errors = old.errors
    unbuffered = old is not None and old.write_through  # PYTHONUNBUFFERED
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding=old.encoding if old is not None else "utf-8",
        errors=errors,
        line_buffering=raw.fileno() == 2 or (old is not None and old.line_buffering),
        write_through=unbuffered,
    )


def _forget_coerced_locale() -> None:
    """Removes the LC_CTYPE that Python has set at its start: jobs get this environment."""
    if os.environ.get("LC_CTYPE") not in _COERCED:
        return
    try:
        with open("/proc/self/environ", "rb") as given:
            variables = given.read().split(b"\0")
    except OSError:
        return
    if not any(variable.startswith(b"LC_CTYPE=") for variable in variables):
        del os.environ["LC_CTYPE"]
