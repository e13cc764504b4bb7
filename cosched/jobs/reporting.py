"""Passes lines to the user of a command or of a program."""

from __future__ import annotations

from collections.abc import Callable

from cosched.core.named_tuples import NamedTuple


class Reports(NamedTuple):
    """The functions that pass one line to the user."""

    warn: Callable[[str], None]  #: passes a warning on
    note: Callable[[str], None]  #: passes a report of progress on
