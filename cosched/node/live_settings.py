"""Changes the settings of a live node: for good, or as long as a client holds them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from cosched.core.config.limits import bounded, limits_for, refuse_settings
from cosched.core.config.schema import Limits
from cosched.core.errors import CoschedError
from cosched.core.node.held_settings import Loans
from cosched.core.node.messages import SettingsChanged
from cosched.core.node.settings import Settings
from cosched.node.driver import Driver, clocks
from cosched.node.sockets.control import Held


class LiveSettings:
    """The settings of one daemon. ``kept``: those of its start; ``limits``: the operator's,
    which bind all of them."""

    def __init__(self, driver: Driver, limits: Limits, kept: Settings) -> None:
        self._driver = driver
        self._limits = limits
        self._loans = Loans(kept)

    @property
    def lent(self) -> Mapping[str, int]:
        """The settings on loan, each with the pid of its holder."""
        return self._loans.lent

    def set(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answers ``set``: the settings in force, and warnings."""
        changes = _changes(request)
        settings = self._allowed(self._loans.after_set(changes))
        self._loans.set(changes)
        answer = self._apply(settings)
        hidden = [name for name in changes if name in self.lent]
        later = [
            f"{name} is on loan to process {self.lent[name]}; {changes[name]} counts later"
            for name in hidden
        ]
        return {**answer, "warnings": [*answer["warnings"], *later]}

    def borrow(self, request: Mapping[str, Any], pid: int) -> Held:
        """Answers ``borrow`` as ``set``; the settings of before return with the holder's
        ``give_back`` or end."""
        changes = _changes(request)
        settings = self._allowed(self._loans.after_borrow(changes))
        number = self._loans.borrow(pid, changes)

        def give_back() -> None:
            self._loans.give_back(number)
            self._apply(bounded(self._limits, self._loans.now))

        return Held(self._apply(settings), give_back)

    def _allowed(self, settings: Settings) -> Settings:
        settings = bounded(self._limits, settings)
        refusal = refuse_settings(limits_for(self._limits, os.geteuid()), settings)
        if refusal is not None:
            raise CoschedError(refusal)
        return settings

    def _apply(self, settings: Settings) -> dict[str, Any]:
        self._driver.feed(SettingsChanged(**clocks(), settings=settings))
        return {"settings": settings.texts(), "warnings": list(settings.warnings())}


def _changes(request: Mapping[str, Any]) -> dict[str, str]:
    assignments = request.get("settings")
    if not isinstance(assignments, dict) or not assignments:
        raise CoschedError("nothing to set; give settings such as slice=0.5s")
    return {str(name): str(value) for name, value in assignments.items()}
