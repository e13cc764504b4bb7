"""Keeps the results of finished runs, so that an experiment of hours can be interrupted:
the same command continues it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cosched.bench.results.store import Store
from cosched.core.errors import CoschedError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

RunT = TypeVar("RunT", bound="DataclassInstance")
Result = dict[str, Any]


class Results:
    """The results in a file. A run is the same as an earlier one if all its fields are.
    Raises CoschedError for another file.

    Several programs may add results to the file; each has the others' after a new start.
    """

    def __init__(self, path: Path) -> None:
        self._store = Store(path)
        self._found: dict[str, list[Result]] = {}
        for row in self._store.lines():
            if not isinstance(row, dict) or row.keys() != {"run", "result"}:
                raise CoschedError(f"{path}: has no results of this kind; name another")
            self._found.setdefault(_key(row["run"]), []).append(row["result"])

    def left(self, runs: Sequence[RunT], repeat: int = 1) -> list[RunT]:
        """Returns the runs that have less than ``repeat`` results: each once a round, so
        that slow changes of the machine affect all runs alike."""
        return [
            run for place in range(repeat) for run in runs if len(self.all(run)) <= place
        ]

    def done(self, runs: Sequence[RunT]) -> list[RunT]:
        """Returns the runs that have a result."""
        return [run for run in runs if self.all(run)]

    def add(self, run: DataclassInstance, result: Result) -> None:
        """Keeps a result of a run; it is on the disk then."""
        plain = _plain(run)
        self._found.setdefault(_key(plain), []).append(result)
        self._store.add({"run": plain, "result": result})

    def all(self, run: DataclassInstance) -> list[Result]:
        """Returns all results of a run, the first first."""
        return self._found.get(_key(_plain(run)), [])

    def last(self, run: DataclassInstance) -> Result:
        """Returns the last result of a run that has one."""
        return self.all(run)[-1]


def _plain(run: DataclassInstance) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(run), default=str))
    return plain


def _key(plain: dict[str, Any]) -> str:
    return json.dumps(plain, sort_keys=True)
