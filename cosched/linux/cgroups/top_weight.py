"""Weighs the group that has all classes of a tag against ordinary programs beside it.

The top competes with daemons, launchers, and programs that start and register. On each CPU
that the classes use, the top as a whole weighs as much as one ordinary task. So a program
beside the classes gets at least half of a CPU, and takes at most half from the classes.
"""

from __future__ import annotations

from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.cgroups.cgroupfs import why, write
from cosched.linux.cgroups.controls import Controls


class TopWeight:
    """The weight of the group ``top``, written when it changes."""

    def __init__(self, top: Path, controls: Controls) -> None:
        self._top = top
        self._controls = controls
        self._written: int | None = None

    def set_for(self, cpus: int) -> None:
        """Weighs the top as one task on each of so many CPUs. CoschedError if it cannot."""
        self.set(self._controls.scale.one_cpu * max(1, cpus))

    def set(self, weight: int) -> None:
        """Gives the top this weight, or the highest there is. CoschedError if it cannot."""
        weight = min(weight, self._controls.scale.high)
        if weight == self._written:
            return
        try:
            write(self._top / self._controls.weight_file, str(weight))
        except OSError as error:
            raise CoschedError(
                f"{self._top}: its weight cannot be set: {why(error)}"
            ) from None
        self._written = weight

    def forget(self) -> None:
        """Writes the next weight in any case: another process may remove an empty top."""
        self._written = None
