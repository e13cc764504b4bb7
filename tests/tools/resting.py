"""Builds the library ``resting.c``, with which ranks that wait leave the CPU to others."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("resting.c")
FLAGS = ("-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror")


@functools.cache
def resting_library() -> Path:
    """Returns the library to preload, compiled once for this process and its forks."""
    folder = Path(tempfile.mkdtemp(prefix="cosched-resting-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "resting.so"
    subprocess.run(["gcc", *FLAGS, SOURCE, "-o", library], check=True)
    return library
