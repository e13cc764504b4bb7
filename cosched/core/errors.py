"""Defines the errors that users see: one line that says what, which, and what to do."""

from __future__ import annotations


class CoschedError(Exception):
    """An expected failure. ``str(error)`` is one line to print."""


class NoDaemon(CoschedError):
    """No daemon answers at a node's control socket, or it died before it answered."""
