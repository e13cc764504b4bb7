"""Runs programs under AddressSanitizer and UBSan."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

LEAKS = Path(__file__).parent / "leaks.txt"
#: The exit status of a process that misused memory.
FOUND = 23
FLAGS = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


def runtime(compiler: str = "gcc") -> str:
    """Returns the library to load before a sanitized one; skips if there is none."""
    try:
        asked = subprocess.run(
            [compiler, "-print-file-name=libasan.so"],
            capture_output=True,
            text=True,
            check=True,
        )
    except OSError:
        pytest.skip(f"no {compiler}")
    library = asked.stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip(f"{compiler} has no AddressSanitizer: apt-get install libgcc-dev")
    return library


def options(*, leaks: bool, **others: int) -> dict[str, str]:
    """Returns a process's environment; ``others`` are AddressSanitizer's own options."""
    asan = {"exitcode": FOUND, "detect_leaks": int(leaks), **others}
    return {
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in asan.items()),
        "LSAN_OPTIONS": f"suppressions={LEAKS}:print_suppressions=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
