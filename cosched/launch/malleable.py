"""Builds the library for malleable programs in C and Fortran, for the MPI at hand.

The library is one object file, so that a program which was linked with it needs nothing of
cosched on its nodes, and the order of words on the linker's command line does not matter.
There is one build for each MPI, as of the interposer (``shim.py``), and it is kept beside
those.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import cosched
from cosched.launch.compile import Compiler, build_once, file_parts, fingerprint
from cosched.launch.shim import ShimBuild
from cosched.linux.files.cache import choose_cache

OBJECT = "cosched_malleable.o"
_PRODUCT = "the library for malleable programs"
FLAGS = (
    *("-std=gnu11", "-O2", "-g1", "-fPIC", "-fvisibility=hidden"),
    *("-Wall", "-Wextra"),
)


class Library(NamedTuple):
    """The library, as a compiler takes it."""

    file: Path  #: the object file
    include: Path  #: the folder of ``cosched/malleable.h``
    module: Path  #: the Fortran module, in source

    def words(self, fortran: bool) -> list[str]:
        """Returns what a compiler's command line needs: that of Fortran, or of C."""
        language = [str(self.module)] if fortran else [f"-I{self.include}"]
        return [*language, str(self.file), "-ldl"]


def sources() -> tuple[Path, ...]:
    """Returns the C files of the library."""
    ours = Path(cosched.__file__).parent
    return (*sorted(_folder().glob("*.c")), ours / "shm" / "page.c")


def includes() -> tuple[Path, ...]:
    """Returns the folders of its headers."""
    ours = Path(cosched.__file__).parent
    return (_folder(), _folder() / "include", ours / "shm" / "include")


def make_library(build: ShimBuild) -> Library:
    """Returns the library for the MPI of a build, compiled first if need be. CoschedError
    if that fails, or if other users can change the place of the result."""
    headers = (header for folder in includes() for header in sorted(folder.rglob("*.h")))
    # The fingerprint of the interposer stands for the MPI and its compiler.
    parts = (build.fingerprint, *FLAGS, *file_parts((*sources(), *headers)))
    place = choose_cache(build.environ, "malleable").folder / fingerprint(parts) / OBJECT
    made = build_once(place, lambda scratch: _compile(build, scratch))
    folder = _folder()
    return Library(made, folder / "include", folder / "cosched_malleable.f90")


def _folder() -> Path:
    # Found without an import: importing cosched.malleable would load MPI.
    return Path(cosched.__file__).parent / "malleable" / "native"


def _compile(build: ShimBuild, scratch: Path) -> Path:
    wrapper = Compiler((str(build.mpicc), *build.options), _PRODUCT, build.environ)
    objects = []
    for source in sources():
        made = str(scratch / f"{source.stem}.o")
        folders = (f"-I{folder}" for folder in includes())
        wrapper.run(*FLAGS, *folders, "-c", str(source), "-o", made)
        objects.append(made)
    whole = scratch / OBJECT
    # The compiler itself links: the wrapper would add the MPI library.
    linker = Compiler((build.compiler,), _PRODUCT, build.environ)
    linker.run("-r", "-nostdlib", *objects, "-o", str(whole))
    return whole
