"""Keeps the lengths of a bench's own runs, apart from the user's record of runs.

``cosched-run`` records how long each job was scheduled, and orders later jobs by it
(cosched/launch/run_record.py). In a bench each run begins with the same record. So no run
learns from another one, and runs before the bench have no effect on it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cosched.bench.run.daemons import Times
from cosched.bench.run.interrupts import temporary_folder
from cosched.launch.run_record import read_runs


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record with which each run begins."""

    path: Path  #: without the file no length is known
    began_ns: int = field(default_factory=time.time_ns)  #: when it began, wall clock

    @contextmanager
    def copied(self) -> Iterator[Path]:
        """Yields a copy for one run, which may add to it."""
        with temporary_folder() as folder:
            copy = folder / "runs.jsonl"
            if self.path.exists():
                shutil.copyfile(self.path, copy)
            yield copy

    @property
    def times(self) -> Times:
        """The time in which its runs ended."""
        last_ns = self.path.stat().st_mtime_ns if self.path.exists() else self.began_ns
        return Times(self.began_ns, last_ns)

    @property
    def length(self) -> int:
        """The number of runs in the record."""
        return len(read_runs(self.path))
