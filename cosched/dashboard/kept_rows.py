"""Keeps rows by key, and returns those that changed after a version. Pure.

A page that has seen one version gets only what changed since. Rows that were removed are
remembered for a while, so that the page can remove them too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

#: How many removed rows are remembered; an older page gets all rows again.
GONE_MOST = 4096

Row = Any


class KeptRows:
    """Rows by key, each with the version at which it changed last."""

    def __init__(self) -> None:
        #: Changes after this version, or a later one, are complete.
        self.complete_from = 0
        self._rows: dict[str, tuple[int, Row]] = {}
        self._gone: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Any:
        return (row for _, row in self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def replace(self, version: int, rows: Mapping[str, Row]) -> None:
        """Takes all rows of a new version."""
        for key in self._rows.keys() - rows.keys():
            del self._rows[key]
            self._gone.append((version, key))
        while len(self._gone) > GONE_MOST:
            self.complete_from = self._gone.popleft()[0]
        for key, row in rows.items():
            kept = self._rows.get(key)
            if kept is None or kept[1] != row:
                self._rows[key] = (version, row)

    def since(self, version: int) -> dict[str, Any]:
        """Returns the rows that changed after this version, and the keys removed since."""
        changed = {key: row for key, (at, row) in self._rows.items() if at > version}
        gone = {key for at, key in self._gone if at > version and key not in self._rows}
        return {"set": changed, "gone": sorted(gone) if version else []}
