"""The one error that people see: a single line that says what, which, what to do."""

from __future__ import annotations


class CoschedError(Exception):
    """An expected failure. ``str(error)`` is one line, ready to print."""


class NoDaemon(CoschedError):
    """Nobody answers at a node's control socket, or who began to has ended over it."""
