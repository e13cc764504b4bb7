"""Compiles a program of a workload for the MPI at hand, once.

A program is one C file. What is built lies in a cache, under a name made of everything it
depends on: source, flags, mpicc and what mpicc says it runs. Two benches at once may
build the same program; the last one's file replaces the other's in one step.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.linux.homes import cache_home

FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra")
LIBRARIES = ("-lm",)
COMPILE_TIMEOUT_S = 300


def default_cache(environ: Mapping[str, str]) -> Path:
    """The folder for built programs, as the XDG rules say."""
    return cache_home(environ) / "cosched" / "programs"


def build_program(source: Path, mpicc: Path, cache: Path) -> Path:
    """The executable for ``source``, compiled with ``mpicc`` unless it is there already."""
    try:
        text = source.read_bytes()
    except OSError as error:
        raise CoschedError(f"source '{source}': {error.strerror}") from error
    program = cache / f"{source.stem}-{_fingerprint(text, mpicc)}"
    if os.access(program, os.X_OK):
        return program
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            fresh = Path(folder, "program")
            _compile(source, mpicc, fresh)
            fresh.replace(program)
    except OSError as error:
        raise CoschedError(
            f"cannot write '{error.filename or cache}': {error.strerror}; "
            "name another folder with XDG_CACHE_HOME"
        ) from error
    return program


def _fingerprint(text: bytes, mpicc: Path) -> str:
    file = mpicc.stat()
    parts = (
        text,
        " ".join((*FLAGS, *LIBRARIES)).encode(),
        os.fsencode(mpicc.absolute()),
        f"{file.st_size} {file.st_mtime_ns}".encode(),
        _run([str(mpicc), "-show"], mpicc).stdout.encode(),
    )
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]


def _compile(source: Path, mpicc: Path, program: Path) -> None:
    argv = [str(mpicc), *FLAGS, "-o", str(program), str(source), *LIBRARIES]
    done = _run(argv, mpicc)
    if done.returncode != 0:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        telling = [line for line in said if "error" in line] or said or ["no message"]
        raise CoschedError(f"source '{source}' does not compile: {telling[0]}")


def _run(argv: list[str], mpicc: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
    except OSError as error:
        raise CoschedError(f"cannot run '{mpicc}': {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise CoschedError(
            f"'{mpicc}' took longer than {COMPILE_TIMEOUT_S} s; try it by hand"
        ) from error
