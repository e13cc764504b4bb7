"""Turns words as this process has them into text for messages, and back.

Python has a word of the system as text, decoded by its locale; a byte that does not decode
is a lone surrogate (PEP 383). Messages have wire text (``cosched.core.wire_text``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from cosched.core.errors import CoschedError
from cosched.core.wire_text import wire_from_bytes, wire_to_bytes


def to_wire(word: str) -> str:
    """Returns a word as wire text. Raises CoschedError for one that no process can have."""
    if "\0" in word:
        raise CoschedError(f"{word!a}: has a NUL")
    return word if word.isascii() else wire_from_bytes(_bytes_of(word))


def from_wire(text: str) -> str:
    """Returns wire text as a word of this process."""
    return text if text.isascii() else os.fsdecode(wire_to_bytes(text))


def words_to_wire(words: Iterable[str]) -> tuple[str, ...]:
    """Returns words as wire text."""
    return tuple(map(to_wire, words))


def words_from_wire(texts: Iterable[str]) -> tuple[str, ...]:
    """Returns wire text as words of this process."""
    return tuple(map(from_wire, texts))


def environ_to_wire(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns variables, names and values, as wire text."""
    return {to_wire(name): to_wire(value) for name, value in environ.items()}


def environ_from_wire(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns variables, names and values, as words of this process."""
    return {from_wire(name): from_wire(value) for name, value in environ.items()}


def _bytes_of(word: str) -> bytes:
    try:
        return os.fsencode(word)
    except UnicodeEncodeError:  # a program's own text, which its locale lacks
        pass
    try:
        return word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise CoschedError(f"{word!a}: is not text") from None
