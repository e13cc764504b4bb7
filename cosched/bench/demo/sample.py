"""Writes the sample program and a workload of it, for users without a clone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from cosched.bench.workload.build import build_program
from cosched.core.errors import CoschedError
from cosched.launch.mpi import SearchPath, find_mpi
from cosched.launch.program import inspect
from cosched.launch.shim import make_shim, plan_build
from cosched.linux.files.whole import write_whole

#: The name of the sample program.
PROGRAM = "wavefront"
WORKLOAD = "workload.toml"
_SOURCE = Path(__file__).with_name("assets") / f"{PROGRAM}.c"

_TEXT = """\
# cosched bench {file} --hosts localhost
title = "demo"
description = "{jobs} jobs of {ranks} ranks that exchange small messages, all at once"

[[job]]
name = "{name}"
source = "{program}.c"
args = "--preset short"
ranks = {ranks}
count = {jobs}
"""


def write_workload(folder: Path, ranks: int, jobs: int, name: str = PROGRAM) -> Path:
    """Writes the program's source and a workload of equal jobs; returns the workload's
    path. name: begins the names of the jobs; numbers follow. Raises CoschedError if a file
    cannot be written."""
    path = folder / WORKLOAD
    write_whole(folder / _SOURCE.name, _SOURCE.read_bytes())
    text = _TEXT.format(file=WORKLOAD, name=name, program=PROGRAM, ranks=ranks, jobs=jobs)
    write_whole(path, text)
    return path


def build_sample(folder: Path, wanted: str | None, environ: Mapping[str, str]) -> Path:
    """Builds the program for an MPI; returns its path in the folder. wanted: the value of
    ``--mpi``. Raises CoschedError without an MPI or a compiler."""
    built = build_program(_SOURCE, _find_mpicc(wanted, environ), environ)
    path = folder / PROGRAM
    write_whole(path, built.read_bytes(), 0o755)
    return path


def build_shim(
    wanted: str | None, environ: Mapping[str, str], note: Callable[[str], object]
) -> None:
    """Builds the shim for an MPI, unless it is there. wanted: the value of ``--mpi``. note:
    takes one line before the build. Raises CoschedError as ``build_sample``."""
    build = plan_build(_find_mpicc(wanted, environ), environ)
    if not build.is_built:
        note("building the shim for this MPI, once")
        make_shim(build)


def _find_mpicc(wanted: str | None, environ: Mapping[str, str]) -> Path:
    words = ("cosched",)  # no program chooses the MPI
    places = SearchPath(Path(sys.executable).parent, environ)
    mpi = find_mpi(inspect(words, environ, None), wanted, places)
    if mpi.mpicc is None:
        raise CoschedError(f"no mpicc beside {mpi.mpiexec} to build with; use --mpi")
    return mpi.mpicc


def make_folder(folder: Path) -> None:
    """Makes the folder for the sample. Raises CoschedError if it cannot be made, or if it
    has other files of these names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoschedError(f"{folder}: cannot be made: {error.strerror}") from None
    source = folder / _SOURCE.name
    if source.exists() and source.read_bytes() != _SOURCE.read_bytes():
        raise CoschedError(f"{source}: is another file; name a new folder")
