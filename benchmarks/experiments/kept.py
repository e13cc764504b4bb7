"""Keeps the results of finished runs, one JSON object a line, so that an experiment of
hours can be interrupted: the same command continues it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RunT = TypeVar("RunT", bound="DataclassInstance")
Result = dict[str, Any]


class Kept:
    """The results in a file. A run is the same as an earlier one if all its fields are."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, Result] = {}
        self._mended: str | None = None
        if path.exists():
            # An interrupted run may have left half a line. Another run may be writing it
            # now, so it is removed only if this run writes too.
            whole, _, half = path.read_text().rpartition("\n")
            if half:
                self._mended = f"{whole}\n" if whole else ""
            for line in whole.splitlines():
                row = json.loads(line)
                self._found[_key(row["run"])] = row["result"]

    def left(self, runs: Sequence[RunT]) -> list[RunT]:
        """Returns the runs that are not in the file."""
        return [run for run in runs if _key(_plain(run)) not in self._found]

    def done(self, runs: Sequence[RunT]) -> list[RunT]:
        """Returns the runs that are in the file."""
        return [run for run in runs if _key(_plain(run)) in self._found]

    def add(self, run: DataclassInstance, result: Result) -> None:
        """Writes the result of a run."""
        plain = _plain(run)
        self._found[_key(plain)] = result
        if self._mended is not None:
            self._path.write_text(self._mended)
            self._mended = None
        with self._path.open("a") as stream:
            stream.write(json.dumps({"run": plain, "result": result}) + "\n")

    def result(self, run: DataclassInstance) -> Result:
        """Returns the result of a run in the file."""
        return self._found[_key(_plain(run))]


def _plain(run: DataclassInstance) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(run), default=str))
    return plain


def _key(plain: dict[str, Any]) -> str:
    return json.dumps(plain, sort_keys=True)
