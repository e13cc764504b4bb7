"""Holds open control files and writes what changes: a switch is these writes."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from cosched.linux.cgroups.controls import Controls
from cosched.linux.cgroups.shares import in_order, quotas

Key = TypeVar("Key", bound=Hashable)


class Setting(NamedTuple):
    """A value for a control file."""

    size: int  #: the value as a number; writes are ordered by it
    text: str  #: the content of the file


def quota_settings(
    controls: Controls, percents: Mapping[str, int], widths: Mapping[str, int]
) -> dict[tuple[str, str], Setting]:
    """Returns the quota of each job, by job and file; a full share has none."""
    return {
        (job, controls.quota_file): Setting(quota_us, controls.quota_text(quota_us))
        for job, quota_us in quotas(percents, widths).items()
    }


class Knobs(Generic[Key]):
    """Open control files, each with the value that was written last."""

    def __init__(self) -> None:
        self._files: dict[Key, int] = {}
        self._written: dict[Key, int | None] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._files

    def open(self, key: Key, path: Path) -> None:
        """Opens a control file, unless it is open. OSError passes through."""
        if key not in self._files:
            self._files[key] = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            self._written[key] = None

    def note(self, key: Key, size: int) -> None:
        """Records a value that was written in another way."""
        if key in self._files:
            self._written[key] = size

    def write(
        self, wanted: Mapping[Key, Setting]
    ) -> tuple[frozenset[Key], dict[Key, OSError]]:
        """Writes the changed values, falling before rising ones.

        So two jobs never have the scheduled job's share at the same time. A file that
        refuses its value does not stop the others. Returns the changed keys and errors."""
        changed: set[Key] = set()
        failed: dict[Key, OSError] = {}
        sizes = {key: setting.size for key, setting in wanted.items() if key in self._files}
        for key, size in in_order(sizes, self._written):
            try:
                os.pwrite(self._files[key], wanted[key].text.encode(), 0)
            except OSError as error:
                failed[key] = error
                continue
            self._written[key] = size
            changed.add(key)
        return frozenset(changed), failed

    def close(self, key: Key) -> None:
        """Closes a control file, if it is open."""
        fd = self._files.pop(key, None)
        self._written.pop(key, None)
        if fd is not None:
            os.close(fd)
