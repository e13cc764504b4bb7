"""Defines the errors that users see: one line that says what, which, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class CoschedError(Exception):
    """An expected failure. ``str(error)`` is one line to print."""


class NoDaemon(CoschedError):
    """No daemon answers at a node's control socket, or it died before it answered."""


class StateLost(Exception):
    """The process's own state is wrong, or could not be stored: the process must end.

    It is no ``CoschedError``, so no request answers it, and no sender is at fault.
    ``str(error)`` is one line."""


@contextmanager
def changing(what: str) -> Iterator[None]:
    """Raises StateLost for an unexpected error inside: half of a change may be done. A
    CoschedError passes: it refuses the change, and nothing has changed.

    what: names the change in the error, as in "the end of job 5"."""
    try:
        yield
    except (StateLost, CoschedError):
        raise
    except Exception as error:
        raise StateLost(f"{what}: {type(error).__name__}: {error}") from error


@contextmanager
def must_succeed(what: str) -> Iterator[None]:
    """Raises StateLost for any error inside: other state counts on the change already.

    what: names the change in the error, as in "the end of job 5"."""
    try:
        with changing(what):
            yield
    except CoschedError as error:
        raise StateLost(f"{what}: {error}") from error
