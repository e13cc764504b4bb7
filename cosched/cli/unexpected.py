"""Reports an error that no part of cosched expected: one line, and a file with details."""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from cosched.core.decoding import printable
from cosched.core.errors import CoschedError
from cosched.linux.files.whole import PRIVATE, write_whole
from cosched.linux.homes import cache_home

_SHOWN = 200


def report_unexpected(program: str, error: Exception) -> None:
    """Prints one line about the error on stderr. Its traceback goes to a file."""
    what = printable(f"{type(error).__name__}: {error}")[:_SHOWN]
    line = f"{program}: unexpected error: {what}"
    try:
        print(f"{line}; details are in {_write_details(error)}", file=sys.stderr)
    except (CoschedError, OSError) as problem:
        print(f"{line}; details cannot be written: {problem}", file=sys.stderr)


def _write_details(error: Exception) -> Path:
    folder = cache_home(os.environ) / "cosched"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "last-error.txt"
    words = [ascii(word) for word in sys.argv]
    text = "".join(traceback.format_exception(error))
    lines = f"{' '.join(words)}\n{text}"
    write_whole(path, lines.encode("utf-8", "backslashreplace"), PRIVATE)
    return path
