"""Prints text for a terminal: no control sequence of another program reaches it.

Names, reasons and records come from daemons, files and other users. All text of a command
goes through the streams of ``printable_output``, so that this is checked in one place. The
output of jobs is copied as bytes, as they wrote it.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

from cosched.core.decoding import printable

#: Line feeds and tabs are part of a text.
_PIECES = r"([\n\t])"
_MARK = "\ufffd"


class PrintableStream:
    """A text stream that replaces control characters, except line feeds and tabs.

    A carriage return at the beginning of a write stays: a line that shows progress begins
    with it. unfiltered: the stream itself, for a program of the terminal such as a progress
    display.
    """

    def __init__(self, stream: TextIO) -> None:
        self.unfiltered = stream
        self._mark = _mark_for(stream)

    def write(self, text: str) -> int:
        """Writes the text; returns its length."""
        begin = "\r" if text.startswith("\r") else ""
        pieces = re.split(_PIECES, text[len(begin) :])
        # Every second piece is a line feed or a tab.
        pieces[::2] = [printable(piece) for piece in pieces[::2]]
        self.unfiltered.write(begin + "".join(pieces).replace(_MARK, self._mark))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unfiltered, name)


@contextlib.contextmanager
def printable_output() -> Iterator[None]:
    """Lets the standard streams replace control characters within the block."""
    out, err = (cast(TextIO, PrintableStream(each)) for each in (sys.stdout, sys.stderr))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        yield


def display_stream() -> TextIO:
    """Returns standard error for a display that writes control sequences itself."""
    stream = sys.stderr
    return stream.unfiltered if isinstance(stream, PrintableStream) else stream


def show_progress(what: str, done: int, of: int) -> None:
    """Shows how much is done in one line of a terminal, which ends with the work."""
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        print(f"\r{what}: {done}/{of}{end}", end="", file=sys.stderr, flush=True)


def _mark_for(stream: TextIO) -> str:
    """Returns what stands for a control character in the encoding of a stream."""
    try:
        _MARK.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return "?"
    return _MARK
