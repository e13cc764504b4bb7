"""Writes the files that options of commands name, such as results and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

import click

from cosched.core.errors import CoschedError
from cosched.linux.files.whole import is_replaceable, mode_to_keep, writing_whole


@contextmanager
def writing(path: Path) -> Iterator[IO[str]]:
    """Opens a file for writing; ``-`` is stdout. A file appears as a whole at the end.
    CoschedError if it cannot be written."""
    if path != Path("-") and is_replaceable(path):
        with _writing_file(path.resolve()) as stream:
            yield stream
        return
    try:
        with click.open_file(str(path), "w", encoding="utf-8") as stream:
            yield stream
    except BrokenPipeError:
        raise  # the reader of stdout has ended; the file is not to blame
    except OSError as error:
        raise CoschedError(f"{path}: cannot be written ({error.strerror})") from error


@contextmanager
def _writing_file(path: Path) -> Iterator[IO[str]]:
    with writing_whole(path, mode_to_keep(path)) as file:
        text = TextIOWrapper(file, "utf-8")
        yield text
        text.detach()


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Writes JSON for scripts into a file, or to stdout for ``-``."""
    with writing(path) as stream:
        json.dump(document, stream, indent=1)
        stream.write("\n")


def write_outcome(json_file: Path | None, text: str, document: Mapping[str, Any]) -> None:
    """Prints the text, unless JSON goes to stdout, and writes the JSON if asked for."""
    if json_file != Path("-"):
        click.echo(text, nl=False)
    if json_file is not None:
        write_json(json_file, document)


def check_writable(*paths: Path | None) -> None:
    """Raises CoschedError for a folder without write access, before long work begins. A
    file that is written in place, such as /dev/stdout, needs none."""
    for path in paths:
        if path in (None, Path("-")) or not is_replaceable(path):
            continue
        if not os.access(path.resolve().parent, os.W_OK):
            raise CoschedError(f"{path}: its folder cannot be written to")
