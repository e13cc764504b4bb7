"""Compiles the programs that run inside, because the machine has no compiler.

The MPI programs of ``benchmarks/programs`` and the interposer are compiled with the mpicc
of the environment that goes into the machine. Without an mpicc, tests that need these
programs are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .contents import REPOSITORY, Python
from .errors import VmError
from .image import CACHE, XDG_CACHE

SOURCES = REPOSITORY / "benchmarks" / "programs"
PROGRAMS = CACHE / "programs"
#: Programs with such a header need more than the MPI. No test inside has one.
HEADERS_OF_OURS = ('#include "table1.h"', "#include <cosched/", '#include "cosched/')

BUILD_SHIM = """
import os
import sys
from pathlib import Path
from cosched.launch.shim import make_shim, plan_build
print(make_shim(plan_build(Path(sys.argv[1]), os.environ)))
"""


def build(python: Python) -> list[Path]:
    """Compiles each program that is missing or old; returns the folders with programs."""
    mpicc = python.scripts / "mpicc"
    if not mpicc.exists():
        return []
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.c")):
        text = source.read_text()
        if not any(header in text for header in HEADERS_OF_OURS):
            _compile(mpicc, source, PROGRAMS / source.stem)
    try:
        return [PROGRAMS, _build_shim(python, mpicc)]
    except VmError as problem:
        print(f"scripts/vm: warning: jobs are not coscheduled: {problem}", file=sys.stderr)
        return [PROGRAMS]


def _build_shim(python: Python, mpicc: Path) -> Path:
    """Builds the interposer, removes older builds, and returns its folder."""
    done = _run(
        [str(python.executable), "-c", BUILD_SHIM, str(mpicc)],
        "the MPI interposer",
        XDG_CACHE_HOME=str(XDG_CACHE),
    )
    newest = Path(done.strip()).parent
    for folder in newest.parent.iterdir():
        if folder != newest:
            shutil.rmtree(folder, ignore_errors=True)
    return newest


def _compile(mpicc: Path, source: Path, program: Path) -> None:
    newest = max(source.stat().st_mtime, mpicc.stat().st_mtime)
    if program.exists() and program.stat().st_mtime > newest:
        return
    command = [str(mpicc), "-O2", "-o", str(program), str(source), "-lm"]
    _run(command, source.name)


def _run(command: list[str], what: str, **variables: str) -> str:
    environ: Mapping[str, str] = {**os.environ, **variables}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=environ
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise VmError(f"{what} does not compile: {reason}")
    return done.stdout
