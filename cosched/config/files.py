"""Reads a file of one table and those below it; mistakes are named with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from cosched.core.config.mistakes import Invalid, Problem, placed
from cosched.core.config.tables import read
from cosched.core.decoding import Malformed
from cosched.core.errors import CoschedError
from cosched.documents import decode_toml, read_document

T = TypeVar("T")


def load_file(path: Path, schema: type[T]) -> T:
    """Reads the file. Raises CoschedError, one line that names the file, the line and the
    key of its first mistake."""
    return parse_text(read_document(path), str(path), schema)


def parse_text(text: str, name: str, schema: type[T]) -> T:
    """Reads the text of a file; ``name`` stands for the file in errors. Raises
    CoschedError."""
    document = decode_toml(text, name)
    try:
        return read(schema, document)
    except Invalid as error:
        first, *others = placed(error.mistakes, text, name)
        more = f" (and {len(others)} more: cosched config check FILE)" if others else ""
        raise CoschedError(f"{first}{more}") from None


def problems_of(path: Path, schema: type) -> list[Problem]:
    """Returns all mistakes in a file. Raises CoschedError if it cannot be read."""
    text = read_document(path)
    try:
        read(schema, decode_toml(text, str(path)))
    except Malformed as error:
        return [Problem("", str(error))]
    except Invalid as error:
        return placed(error.mistakes, text, str(path))
    return []
