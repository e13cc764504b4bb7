"""Describes mistakes in a table, and finds their lines in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple

_HEADER = r"\s*\[(\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?"
_ASSIGNMENT = r"""\s*((?:[\w-]+|"[^"]*"|'[^']*'|\s*\.\s*)+?)\s*="""


class Mistake(NamedTuple):
    """One mistake."""

    path: str  #: ``table.key``; empty: the file as a whole
    text: str  #: the fault, in words

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text

    def under(self, table: str) -> Mistake:
        """Returns the mistake for a reader of the table that has this one."""
        return Mistake(joined(table, self.path), self.text)


def taken(
    path: str, address: str | None, owners: Mapping[str, str], name: str = ""
) -> Iterator[Mistake]:
    """Yields a mistake if an address belongs to another part. owners: the parts, by their
    addresses. name: names the value of a mapping at the path."""
    if address is not None and address in owners:
        text = f"{address} is the address of {owners[address]}"
        yield Mistake(path, f"{name}: {text}" if name else text)


class Invalid(CoschedError):
    """A table with mistakes; ``str(error)`` is the first one."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__(str(mistakes[0]))
        self.mistakes = tuple(mistakes)


def mistakes_under(path: str, error: CoschedError) -> list[Mistake]:
    """Returns the mistakes of which an error about the value at ``path`` consists."""
    if isinstance(error, Invalid):
        return [each.under(path) for each in error.mistakes]
    return [Mistake(path, str(error))]


class Problem(NamedTuple):
    """A mistake and its place."""

    where: str  #: a file with its line, a variable or an option; empty: no place
    message: str  #: the fault, in words

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def joined(table: str, name: str) -> str:
    """Returns ``table.name``, or the one that is not empty."""
    return ".".join(filter(None, (table, name)))


def placed(mistakes: Iterable[Mistake], text: str, file: str) -> list[Problem]:
    """Returns the mistakes with their lines; a key that is missing has the line of its
    table. text: the content of the file."""
    lines = key_lines(text)
    return [Problem(place(file, _line(lines, each.path)), str(each)) for each in mistakes]


def _line(lines: Mapping[str, int], path: str) -> int | None:
    while path and path not in lines:
        path = path.rpartition(".")[0]
    return lines.get(path)


def place(file: str, line: int | None) -> str:
    """Returns ``file:line``, or the file alone if nothing there has a line."""
    return file if line is None else f"{file}:{line}"


def key_lines(text: str) -> dict[str, int]:
    """Returns the line of each table and key of a TOML document, by its dotted path. The
    tables of a list have numbers: ``job.1.name``."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        header = re.fullmatch(_HEADER, line)
        assignment = None if header else re.match(_ASSIGNMENT, line)
        if header:
            table = _plain(header[2])
            if header[1]:
                lines.setdefault(table, number)
                table = next(
                    each for n in count(1) if (each := f"{table}.{n}") not in lines
                )
            lines.setdefault(table, number)
        elif assignment:
            parts = joined(table, _plain(assignment[1])).split(".")
            for end in range(1, len(parts) + 1):
                lines.setdefault(".".join(parts[:end]), number)
    return lines


def _plain(path: str) -> str:
    """Returns a dotted path without quotes and blanks."""
    return ".".join(part.strip().strip("\"'") for part in path.split("."))
