"""Files that commands write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from cosched.core.errors import CoschedError


@contextmanager
def writing(path: Path) -> Iterator[IO[str]]:
    """A file, or stdout for ``-``."""
    try:
        with click.open_file(str(path), "w", encoding="utf-8") as stream:
            yield stream
    except BrokenPipeError:
        raise  # not the file: whoever read our output has left
    except OSError as error:
        raise CoschedError(f"{path}: cannot be written ({error.strerror})") from error


def check_writable(path: Path | None) -> None:
    """Finds out before long work, not after it."""
    if path not in (None, Path("-")) and not os.access(path.parent, os.W_OK):
        raise CoschedError(f"{path}: its folder cannot be written to")
