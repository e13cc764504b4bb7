"""Files that commands write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

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


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """JSON for scripts into a file, or to stdout for ``-``."""
    with writing(path) as stream:
        json.dump(document, stream, indent=1)
        stream.write("\n")


def check_writable(*paths: Path | None) -> None:
    """Finds out before long work, not after it."""
    for path in paths:
        if path not in (None, Path("-")) and not os.access(path.parent, os.W_OK):
            raise CoschedError(f"{path}: its folder cannot be written to")
