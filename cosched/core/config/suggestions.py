"""Suggests a known word for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable


def suggest(word: str, known: Iterable[str]) -> str:
    """Returns ``; did you mean 'x'?`` if a known word is close, otherwise an empty text."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
