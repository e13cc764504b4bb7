"""Compile outside what runs inside: there is no compiler in the machine.

MPI programs come from ``benchmarks/programs``, by the mpicc of the environment that
goes into the machine. Without an mpicc there are none, and tests that want them skip.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from .contents import REPOSITORY, Python
from .errors import VmError
from .image import CACHE

SOURCES = REPOSITORY / "benchmarks" / "programs"
PROGRAMS = CACHE / "programs"


def build(python: Python) -> Path:
    """The folder with the compiled programs; compiles what is missing or old."""
    mpicc = python.scripts / "mpicc"
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    if mpicc.exists():
        for source in sorted(SOURCES.glob("*.c")):
            _compile(mpicc, source, PROGRAMS / source.stem)
    return PROGRAMS


def _compile(mpicc: Path, source: Path, program: Path) -> None:
    newest = max(source.stat().st_mtime, mpicc.stat().st_mtime)
    if program.exists() and program.stat().st_mtime > newest:
        return
    command = [str(mpicc), "-O2", "-o", str(program), str(source), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[0]
        raise VmError(f"{source.name} does not compile: {reason}")
