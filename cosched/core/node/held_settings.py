"""Keeps the settings of a node, and those that a client holds for a time (``--hold``).

A bench changes the settings of a node for its runs. It borrows them: its changes lie above
the settings that the operator set, and go when the bench gives them back or dies. A later
loan lies above an earlier one. A change by an operator counts when the loans above it end.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from cosched.core.node.settings import Settings


class Loan(Struct, frozen=True):
    """One change of settings that a process holds."""

    number: int  #: counts the loans; a later one has a larger number
    holder: int  #: the pid of the process
    changes: Mapping[str, str]  #: the text of each changed setting, by its name


class Loans:
    """Holds the settings of one node: lasting ones, and the loans above them.

    Settings in a change that do not parse raise CoschedError, and nothing is changed.
    """

    def __init__(self, kept: Settings) -> None:
        self._kept = kept
        self._loans: tuple[Loan, ...] = ()
        self._number = 0

    @property
    def now(self) -> Settings:
        """The settings in force."""
        return _under(self._kept, self._loans)

    @property
    def lent(self) -> dict[str, int]:
        """The names of settings on loan, each with the pid of its uppermost holder."""
        return {name: loan.holder for loan in self._loans for name in loan.changes}

    def after_set(self, changes: Mapping[str, str]) -> Settings:
        """Returns the settings that would be in force after ``set``."""
        return _under(self._kept.changed(dict(changes)), self._loans)

    def after_borrow(self, changes: Mapping[str, str]) -> Settings:
        """Returns the settings that would be in force after ``borrow``."""
        return self.now.changed(dict(changes))

    def set(self, changes: Mapping[str, str]) -> None:
        """Changes the settings that stay."""
        self._kept = self._kept.changed(dict(changes))

    def borrow(self, holder: int, changes: Mapping[str, str]) -> int:
        """Lays a change above all others; returns its number. ``holder``: a pid."""
        self.after_borrow(changes)
        self._number += 1
        self._loans = (*self._loans, Loan(self._number, holder, dict(changes)))
        return self._number

    def give_back(self, number: int) -> None:
        """Takes a change away; the other changes stay in their order."""
        self._loans = tuple(loan for loan in self._loans if loan.number != number)


def _under(settings: Settings, loans: tuple[Loan, ...]) -> Settings:
    for loan in loans:
        settings = settings.changed(dict(loan.changes))
    return settings
