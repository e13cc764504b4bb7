"""Compiles a program of a workload for the MPI at hand. A program is one C file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.launch.compile import (
    Compiler,
    build_once,
    file_parts,
    file_stamp,
    fingerprint,
)
from cosched.linux.files.cache import cache_folder

FLAGS = ("-std=c11", "-O3", "-Wall", "-Wextra")
LIBRARIES = ("-lm",)


def build_program(
    source: Path,
    mpicc: Path,
    environ: Mapping[str, str],
    cache: Path | None = None,
    words: Sequence[str] = (),
) -> Path:
    """Returns the executable for ``source``, compiled with ``mpicc`` if need be.

    ``environ``: the user's, for the compiler. ``cache``: where programs are kept, by
    default ``$XDG_CACHE_HOME/cosched/programs``. ``words``: further ones for the compiler.
    CoschedError if it does not compile, or if other users can change what is kept there.
    """
    compiler = Compiler((str(mpicc),), f"'{source}'", environ)
    try:
        text = source.read_bytes()
    except OSError as error:
        raise CoschedError(f"source '{source}': {error.strerror}") from error
    show = compiler.ask("-show").stdout
    headers = file_parts(sorted(source.parent.glob("*.h")))
    options = (*FLAGS, *words, *LIBRARIES)
    name = fingerprint((text, *headers, *options, file_stamp(mpicc), show))
    root = cache_folder(environ, "programs") if cache is None else cache

    def build(scratch: Path) -> Path:
        made = scratch / source.stem
        compiler.run(*FLAGS, "-o", str(made), str(source), *words, *LIBRARIES)
        return made

    return build_once(root / name / source.stem, build)
