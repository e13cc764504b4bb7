"""Finds the kind of program that a command line starts, and the MPI that it will load.

An ELF file names its libraries. A Python program loads the MPI that mpi4py chooses: the
one in MPI4PY_MPIABI, the one mpi4py was built with, or (wheels) the first one in the
interpreter's environment. The MPI of any other script is unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch.elf import Elf, read_elf
from cosched.launch.family import (
    STANDARD_ABI,
    Family,
    family_of_library,
    is_mpi_library,
)
from cosched.launch.given.first_word import is_python, label_of
from cosched.launch.remembered import remembered
from cosched.linux.processes.tools import ask_tool

LDD_TIMEOUT_S = 10
_LOADER_CACHE = Path("/etc/ld.so.cache")
_LDD_LINE = r"(?m)^\s*(lib\S+) => (\S+)"
_ABI_NAMES = {
    "mpich": Family.MPICH,
    "impi": Family.MPICH,
    "openmpi": Family.OPENMPI,
}
_MPI4PY_STANDARD_ABI = "mpiabi"
_MPI4PY_LIBRARIES = ("libmpi.so", "libmpi.so.12", "libmpi.so.40")
#: By the end of a source file's name.
_COMPILERS = {
    **dict.fromkeys((".c",), "mpicc"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".C"), "mpicxx"),
    **dict.fromkeys((".f", ".F", ".f90", ".F90", ".f95", ".f03", ".f08"), "mpifort"),
}
_PACKAGES = ("lib/python3*/site-packages", "lib/python3/dist-packages")


class Program(NamedTuple):
    """A program, and the MPI that it loads."""

    argv: tuple[str, ...]  #: the program and its arguments
    path: Path | None  #: the program's file; None: not found here
    label: str  #: the program's name for users
    family: Family | None = None  #: the MPI of its library; None: unknown
    library: Path | None = None  #: the file of its MPI library; None: not found, or no MPI
    library_name: str = ""  #: the name of its MPI library, with a version; empty: unknown
    interpreter: Path | None = None  #: the Python that runs it; None: no Python program

    @property
    def standard_abi(self) -> bool:
        """Whether it follows MPI 5's own ABI, which needs a separate shim."""
        return self.library_name.startswith(STANDARD_ABI)


def which(command: str, environ: Mapping[str, str]) -> Path | None:
    """Returns the executable file of ``command``, with symbolic links kept."""
    if "/" in command:
        candidates = [command]
    else:
        path = environ.get("PATH", os.defpath)
        candidates = [os.path.join(d or ".", command) for d in path.split(os.pathsep)]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return Path(os.path.abspath(candidate))
    return None


def require(command: str, environ: Mapping[str, str], what: str = "program") -> Path:
    """Does the same as ``which``; CoschedError with the reason if there is no such file."""
    found = which(command, environ)
    if found is not None:
        return found
    if "/" not in command:
        hint = f"; did you mean ./{command}?" if os.path.isfile(command) else ""
        raise CoschedError(f"{what} '{command}': not found in PATH{hint}")
    if os.path.isdir(command):
        raise CoschedError(f"{what} '{command}': is a directory")
    if os.path.exists(command):
        raise CoschedError(f"{what} '{command}': {_why_not_executable(command)}")
    raise CoschedError(f"{what} '{command}': no such file")


def _why_not_executable(path: str) -> str:
    """Returns why a file cannot be a program, and what to do."""
    stem, suffix = os.path.splitext(path)
    compiler = _COMPILERS.get(suffix)
    if compiler is None:
        return "not executable; chmod +x makes it so"
    return f"is a source file; compile it first: {compiler} -o {stem} {path}"


def inspect(argv: Sequence[str], environ: Mapping[str, str], path: Path | None) -> Program:
    """Returns the facts about ``argv``; ``path``: the file of its first word."""
    words = tuple(argv)
    label = label_of(words)
    if path is None:
        return Program(words, None, label)
    if is_python(path.name):
        return _python(words, path, path, label, environ)
    interpreter = _shebang(path, environ)
    if interpreter is not None and is_python(interpreter.name):
        return _python(words, path, interpreter, label, environ)
    elf = read_elf(path)
    if elf is None:
        return Program(words, path, label)
    name, library = mpi_library_of(elf, environ)
    return Program(words, path, label, family_of_library(name), library, name)


def mpi_library_of(elf: Elf, environ: Mapping[str, str]) -> tuple[str, Path | None]:
    """Returns name and file of the MPI library that ``elf`` loads, directly or not.

    It runs ldd only if the file itself does not determine the library.
    """
    direct = next((name for name in elf.needed if is_mpi_library(name)), "")
    if direct:
        found = elf.find(direct, environ)
        if found is not None:
            return direct, found
    if not elf.needed:
        return "", None
    for name, where in loaded_libraries(elf.path, environ, elf.search_path(environ)):
        if name == direct or (not direct and is_mpi_library(name)):
            return name, Path(where) if where.startswith("/") else None
    return direct, None


def loaded_libraries(
    path: Path, environ: Mapping[str, str], folders: Iterable[Path] = ()
) -> list[tuple[str, str]]:
    """Returns name and file of each library that the loader would load with ``path``.
    folders: it searches there before its cache."""
    words = ("ldd", str(path))
    files = (path, _LOADER_CACHE, *folders)
    answer = remembered(
        words, files, environ, lambda: ask_tool(words, LDD_TIMEOUT_S, environ).output
    )
    return re.findall(_LDD_LINE, answer)


def _shebang(path: Path, environ: Mapping[str, str]) -> Path | None:
    try:
        with path.open("rb") as file:
            head = file.read(512)
    except OSError:
        return None
    if not head.startswith(b"#!"):
        return None
    words = os.fsdecode(head[2:].split(b"\n", 1)[0]).split()
    if words and os.path.basename(words[0]) == "env":
        words = [w for w in words[1:] if not w.startswith("-") and "=" not in w]
    return which(words[0], environ) if words else None


def _python(
    argv: tuple[str, ...],
    path: Path,
    interpreter: Path,
    label: str,
    environ: Mapping[str, str],
) -> Program:
    family, name, library = None, "", None
    prefix = interpreter.parent.parent
    if environ.get("MPI4PY_MPIABI"):
        wanted = re.sub(r"[-_ ]", "", environ["MPI4PY_MPIABI"]).lower()
        family = _ABI_NAMES.get(wanted)
        if wanted == _MPI4PY_STANDARD_ABI:
            name, library = _standard_abi_library(interpreter, environ)
    elif any(any(prefix.glob(f"{place}/mpi4py")) for place in _PACKAGES):
        name, library = _mpi4py_library(interpreter, environ)
        family = family_of_library(name)
    return Program(argv, path, label, family, library, name, interpreter)


def _mpi4py_library(
    interpreter: Path, environ: Mapping[str, str]
) -> tuple[str, Path | None]:
    prefix = interpreter.parent.parent
    for extension in _built_mpi4py(prefix):
        elf = read_elf(extension)
        if elf is not None:
            name, library = mpi_library_of(elf, environ)
            if name:
                return name, library
    for candidate in _mpi4py_candidates(interpreter, environ):
        name = _soname(candidate)
        if name:
            return name, candidate
    return "", None


def _standard_abi_library(
    interpreter: Path, environ: Mapping[str, str]
) -> tuple[str, Path | None]:
    """Searches libmpi_abi in the places of mpi4py."""
    for candidate in _mpi4py_candidates(interpreter, environ):
        for library in (candidate, candidate.with_name(STANDARD_ABI + "1")):
            if library.name.startswith(STANDARD_ABI) and os.path.isfile(library):
                return library.name, library
    return STANDARD_ABI + "1", None


def _mpi4py_candidates(interpreter: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yields the libraries that mpi4py's wheel tries, in its order."""
    named = environ.get("MPI4PY_LIBMPI")
    if named:
        entries = [Path(entry) for entry in named.split(os.pathsep)]
    else:
        base = Path(os.path.realpath(interpreter)).parent.parent
        home = environ.get("HOME", "/nonexistent")
        user = environ.get("PYTHONUSERBASE", f"{home}/.local")
        own = environ.get("LD_LIBRARY_PATH", "").split(":")
        system = ("/usr/local/lib", f"/usr/lib/{os.uname().machine}-linux-gnu")
        entries = [interpreter.parent.parent / "lib", Path(user, "lib"), base / "lib"]
        entries += [Path(entry) for entry in own if entry]
        entries += [Path(entry) for entry in (*system, "/usr/lib64", "/usr/lib")]
    for entry in entries:
        if entry.is_dir():
            yield from (entry / name for name in _MPI4PY_LIBRARIES)
        else:
            yield entry


def _built_mpi4py(prefix: Path) -> Iterator[Path]:
    """Yields mpi4py's extension if it was built for one MPI (a wheel has one per ABI)."""
    for place in _PACKAGES:
        for extension in prefix.glob(f"{place}/mpi4py/MPI.*.so"):
            abi = extension.name.split(".")[1]
            if abi not in _ABI_NAMES and abi != _MPI4PY_STANDARD_ABI:
                yield extension


def _soname(library: Path) -> str:
    """Returns the name with a version; ``libmpi.so`` is a link or a linker script."""
    if not os.path.isfile(library):
        return ""
    if is_mpi_library(library.name):
        return library.name
    real = Path(os.path.realpath(library))
    if is_mpi_library(real.name):
        return real.name
    for name in _MPI4PY_LIBRARIES[1:]:
        if os.path.isfile(library.parent / name):
            return name
    return ""
