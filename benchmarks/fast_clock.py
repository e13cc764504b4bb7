"""Runs a Python module beside a wall clock that goes faster.

    python -m benchmarks.fast_clock FACTOR EPOCH MODULE [ARGUMENTS]

From EPOCH on, in seconds since 1970, ``time.time`` and ``time.time_ns`` go FACTOR times as
fast. Processes with the same two numbers agree about the time. Clocks that measure how long
something takes, and waits, stay as they are.
"""

from __future__ import annotations

import runpy
import sys
import time


def go_faster(factor: float, epoch_s: float) -> None:
    """Makes the wall clock of this process go faster."""
    real_ns, epoch_ns = time.time_ns, round(epoch_s * 1e9)

    def time_ns() -> int:
        return epoch_ns + round((real_ns() - epoch_ns) * factor)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


def main() -> None:
    """Runs the module."""
    factor, epoch_s, module, *words = sys.argv[1:]
    go_faster(float(factor), float(epoch_s))
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
