"""Runs that are done are kept at once, one JSON object a line, so that an experiment of
hours can be interrupted: the same command goes on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cosched.sim.malleable.runs import MalleableOutcome, MalleableRun


class Kept:
    """The runs in a file. A run counts as done if all that it was given is the same."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[str, dict[str, Any]] = {}
        self._mended: str | None = None
        if path.exists():
            # An interrupted run may have left half a line. Another run may be writing it
            # now, so it is removed only if this run writes too.
            whole, _, half = path.read_text().rpartition("\n")
            if half:
                self._mended = f"{whole}\n" if whole else ""
            for line in whole.splitlines():
                row = json.loads(line)
                self._found[_key(row["run"])] = row

    def left(self, runs: Sequence[MalleableRun]) -> list[MalleableRun]:
        """Returns the runs that are not in the file."""
        return [run for run in runs if _key(asdict(run)) not in self._found]

    def done(self, runs: Sequence[MalleableRun]) -> list[MalleableRun]:
        """Returns the runs that are in the file."""
        return [run for run in runs if _key(asdict(run)) in self._found]

    def add(self, outcome: MalleableOutcome) -> None:
        """Writes a run down."""
        row = {
            "run": asdict(outcome.run),
            "nodes": outcome.nodes,
            "figures": list(outcome.figures),
        }
        self._found[_key(row["run"])] = row
        if self._mended is not None:
            self._path.write_text(self._mended)
            self._mended = None
        with self._path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")

    def outcome(self, run: MalleableRun) -> MalleableOutcome:
        """Returns the result of a run in the file."""
        row = self._found[_key(asdict(run))]
        return MalleableOutcome(run, row["nodes"], tuple(row["figures"]))


def _key(run: Any) -> str:
    return json.dumps(run, sort_keys=True)
