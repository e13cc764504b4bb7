"""Runs a Python module beside a wall clock that another process steps.

    python -m benchmarks.stepped_clock FILE MODULE [ARGUMENTS]

``time.time`` and ``time.time_ns`` return the time in FILE, in ns since 1970. So processes
with the same file agree about the time, however slow the machine is. Clocks that measure
how long something takes, and waits, stay as they are.
"""

from __future__ import annotations

import mmap
import runpy
import struct
import sys
import time
from pathlib import Path

_TIME = struct.Struct("q")


class SteppedClock:
    """A clock in a file. Raises FileNotFoundError if there is none."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _TIME.size)

    @classmethod
    def create(cls, path: Path, now_ns: int) -> SteppedClock:
        """Returns a new clock."""
        path.write_bytes(_TIME.pack(now_ns))
        return cls(path)

    def now_ns(self) -> int:
        """Returns the time in ns since 1970."""
        now_ns: int = _TIME.unpack_from(self._memory)[0]
        return now_ns

    def step(self, by_ns: int) -> None:
        """Moves the clock on."""
        _TIME.pack_into(self._memory, 0, self.now_ns() + by_ns)

    def install(self) -> None:
        """Makes it the wall clock of this process."""
        time.time_ns = self.now_ns
        time.time = lambda: self.now_ns() / 1e9


def main() -> None:
    """Runs the module."""
    path, module, *words = sys.argv[1:]
    SteppedClock(Path(path)).install()
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
