"""Reads and writes TOML and JSON files. A file that cannot be read gives one line of error:
its name, the line of the first mistake, and the mistake."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from cosched.core.config.mistakes import Invalid, Problem, placed
from cosched.core.config.tables import read, without_effect
from cosched.core.decoding import (
    DOCUMENT_MOST,
    Malformed,
    decode_json,
    decode_text,
    printable,
)
from cosched.core.errors import CoschedError

T = TypeVar("T")


class NotToml(Malformed):
    """A document that is not TOML. problem: the mistake and its place."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


#: The most characters of the parser's message in an error.
_SHOWN = 200
#: The end of the parser's message: its place.
_TOML_PLACE = r"(?s)(.*?) ?\(at (?:line (\d+), column \d+|end of document)\)"


def read_json(path: Path) -> Any:
    """Returns the content of a JSON file. Raises CoschedError if it is none."""
    return decode_json(read_document(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Returns the content of a TOML file. Raises CoschedError if it is none."""
    return decode_toml(read_document(path), str(path))


def decode_toml(text: str, what: str) -> dict[str, Any]:
    """Returns the table of a TOML document. Raises NotToml. what: stands for the file."""
    if sys.version_info >= (3, 11):  # most programs read none
        import tomllib
    else:
        import tomli as tomllib
    if len(text) > DOCUMENT_MOST:
        mistake = f"{len(text)} characters are more than {DOCUMENT_MOST}"
        raise NotToml(Problem(what, mistake))
    try:
        return tomllib.loads(text)
    except (ValueError, OverflowError, RecursionError) as error:
        message = printable(str(error))[:_SHOWN]
        raise NotToml(_syntax_problem(message, what, text)) from None


def _syntax_problem(message: str, name: str, text: str) -> Problem:
    """Returns the parser's message with the line that it names. name: stands for the file;
    text: its content."""
    match = re.fullmatch(_TOML_PLACE, message)
    if match is None:
        return Problem(name, f"not TOML: {message}")
    line = match[2] or max(1, len(text.splitlines()))
    return Problem(f"{name}:{line}", f"not TOML: {match[1]}")


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


def examined(path: Path, schema: type) -> tuple[list[Problem], list[Problem]]:
    """Returns all mistakes in a file, and, if there are none, its keys without effect.
    Raises CoschedError if it cannot be read."""
    text, name = read_document(path), str(path)
    try:
        value: Any = read(schema, decode_toml(text, name))
    except NotToml as error:
        return [error.problem], []
    except Invalid as error:
        return placed(error.mistakes, text, name), []
    return [], placed(without_effect(value), text, name)


def encode_toml(document: Mapping[str, Any], comments: Mapping[str, str]) -> str:
    """Returns the text of a TOML document. comments: those of keys, by ``table.key``;
    tables have none."""
    import tomlkit  # few programs write one

    def fill(table: Any, values: Mapping[str, Any], above: str) -> Any:
        for name, value in sorted(values.items(), key=lambda each: _is_table(each[1])):
            path = f"{above}{name}"
            if isinstance(value, dict):
                table.add(name, fill(tomlkit.table(), value, f"{path}."))
                continue
            item = tomlkit.item(value)
            if path in comments and not _is_table(value):
                item.comment(comments[path])
            table.add(name, item)
        return table

    return tomlkit.dumps(fill(tomlkit.document(), document, ""))


def _is_table(value: Any) -> bool:
    """Returns whether a value stands below the keys of its table."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict)


def is_there(path: Path) -> bool:
    """Returns whether a file exists. Raises CoschedError if its folder is closed."""
    try:
        return path.exists()
    except OSError as error:
        raise CoschedError(f"{path}: cannot be read: {error.strerror}") from None


def read_document(path: Path) -> str:
    """Returns the text of a file. Raises CoschedError if it cannot be read, and for text
    that is not UTF-8."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CoschedError(f"{path}: cannot be read: {error.strerror}") from None
    return decode_text(data, str(path))
