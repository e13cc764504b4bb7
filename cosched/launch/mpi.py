"""Finds the MPI that a job will use: its launcher and the compiler wrapper beside it.

The search goes through these places: the MPI that ``--mpi`` names; the installation of the
program's own MPI library; the directory of the Python that runs the program, or of the
running Python; PATH. A launcher of another family than the program's library is skipped,
because it would start N programs of one rank each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosched.core.errors import CoschedError
from cosched.core.named_tuples import NamedTuple
from cosched.launch.family import Family, Mpi, Version, read_version
from cosched.launch.intel import is_intel_wrapper
from cosched.launch.program import Program, which
from cosched.launch.remembered import remembered
from cosched.linux.homes import with_home
from cosched.linux.processes.tools import ask_tool

VERSION_TIMEOUT_S = 20

_LAUNCHER_NAMES = {
    None: ("mpiexec", "mpiexec.hydra", "mpiexec.mpich", "mpiexec.openmpi", "mpirun"),
    Family.MPICH: ("mpiexec", "mpiexec.mpich", "mpiexec.hydra", "mpirun"),
    Family.OPENMPI: ("mpiexec", "mpiexec.openmpi", "mpirun", "orterun", "prterun"),
}
_ANCESTORS_MAX = 5


class SearchPath(NamedTuple):
    """The places in which an MPI is searched."""

    python_bin: Path  #: the directory of the running Python
    environ: Mapping[str, str]  #: the user's environment, with PATH


def find_mpi(program: Program, asked: str | None, places: SearchPath) -> Mpi:
    """Returns the MPI for ``program``; CoschedError if there is none."""
    search = _Search(program, places)
    if asked is None:
        return search.automatic()
    try:
        return search.of_family(Family(asked))
    except ValueError:
        return search.named(asked)


def launcher_version(launcher: Path, environ: Mapping[str, str]) -> Version:
    """Returns a launcher's version; for an unknown one the kind INHERIT."""
    words = (str(launcher), "--version")

    def ask() -> str:
        return "".join(ask_tool(words, VERSION_TIMEOUT_S, with_home(environ)))

    return read_version(remembered(words, (launcher,), environ, ask))


def find_mpicc(program: Program, launcher: Path, family: Family | None) -> Path | None:
    """Returns the compiler wrapper beside the launcher, for ``program``'s ABI.

    ``mpicc.FAMILY`` comes first, because several families can share a directory. MPI 5's
    own ABI has a separate wrapper; Intel MPI's wrapper has an option for it.
    """
    if program.standard_abi:
        names = ["mpicc_abi"]
    else:
        names = [f"mpicc.{family.value}", "mpicc"] if family else ["mpicc"]
    real = Path(os.path.realpath(launcher))
    for directory in dict.fromkeys((launcher.parent, real.parent)):
        for name in names:
            found = which(str(directory / name), {})
            if found is not None:
                return found
        if program.standard_abi and is_intel_wrapper(directory / "mpicc"):
            return which(str(directory / "mpicc"), {})
    return None


def find_compiler(program: Program, places: SearchPath) -> Path | None:
    """Returns the wrapper for a program whose launcher has none (srun)."""
    for directory in _directories(program, places):
        found = find_mpicc(program, directory / "mpicc", program.family)
        if found is not None:
            return found
    return None


class _Search:
    """One search for one program; keeps rejected launchers for the error message."""

    def __init__(self, program: Program, places: SearchPath) -> None:
        self._program = program
        self._places = places
        self._others: list[tuple[Path, Family]] = []

    def automatic(self) -> Mpi:
        wanted = self._program.family
        found = self._first(wanted)
        if found is not None:
            return found
        if self._others and wanted is not None:
            raise self._mismatch(*self._others[0], f"give {wanted.title}'s with --mpi")
        raise CoschedError(
            f"no MPI found: no mpiexec beside {self._where()} nor in PATH; install one "
            f"({self._installs(Family.MPICH)}) or name it with --mpi"
        )

    def of_family(self, family: Family) -> Mpi:
        found = self._first(family)
        if found is None:
            raise CoschedError(
                f"no {family.title} found: no mpiexec of it beside {self._where()} "
                f"nor in PATH; install it ({self._installs(family)}) or give its path "
                "to --mpi"
            )
        return self._checked(found)

    def named(self, asked: str) -> Mpi:
        launcher = self._launcher_at(asked)
        version = launcher_version(launcher, self._places.environ)
        if version.family is None:
            raise CoschedError(
                f"--mpi {asked}: neither Hydra nor Open MPI; "
                f"write the launcher yourself: cosched-run -- {launcher} ..."
            )
        return self._checked(self._installation(launcher, version))

    def _launcher_at(self, asked: str) -> Path:
        if os.path.isdir(asked):
            for directory in (Path(asked, "bin"), Path(asked)):
                for name in _LAUNCHER_NAMES[None]:
                    found = which(os.path.abspath(directory / name), {})
                    if found is not None:
                        return found
            raise CoschedError(f"--mpi {asked}: no mpiexec in {asked}/bin")
        found = which(asked, self._places.environ)
        if found is None:
            raise CoschedError(
                f"--mpi {asked}: not 'mpich', not 'openmpi', no directory and no mpiexec"
            )
        return found

    def _checked(self, mpi: Mpi) -> Mpi:
        if self._program.family not in (None, mpi.family):
            raise self._mismatch(mpi.mpiexec, mpi.family, "leave out --mpi")
        return mpi

    def _mismatch(self, launcher: Path, family: Family, hint: str) -> CoschedError:
        program = self._program
        assert program.family is not None
        library = f" ({program.library_name})" if program.library_name else ""
        return CoschedError(
            f"{program.argv[0]}: uses {program.family.title}{library}, "
            f"but {launcher} is {family.title}'s; {hint}"
        )

    def _first(self, wanted: Family | None) -> Mpi | None:
        seen: set[Path] = set()
        for directory in _directories(self._program, self._places):
            for name in _LAUNCHER_NAMES[wanted]:
                launcher = which(str(directory / name), {})
                if launcher is None or launcher.resolve() in seen:
                    continue
                seen.add(launcher.resolve())
                version = launcher_version(launcher, self._places.environ)
                if version.family is None:
                    continue
                if wanted in (None, version.family):
                    return self._installation(launcher, version)
                self._others.append((launcher, version.family))
        return None

    def _installation(self, launcher: Path, version: Version) -> Mpi:
        assert version.family is not None
        return Mpi(
            version.family,
            version.engine,
            version.number,
            launcher,
            find_mpicc(self._program, launcher, version.family),
            version.intel,
        )

    def _where(self) -> str:
        return str(self._program.interpreter or self._places.python_bin / "python")

    def _installs(self, family: Family) -> str:
        """Returns how a user gets an MPI: the Python of a system's package has no pip."""
        if Path(self._where()).with_name("pip").exists():
            return f"{self._where()} -m pip install {family.value}"
        return f"the system's package of {family.title}"


def _directories(program: Program, places: SearchPath) -> Iterator[Path]:
    """Yields each directory that may hold the right launcher once, best first."""
    return iter(dict.fromkeys(_all_directories(program, places)))


def _all_directories(program: Program, places: SearchPath) -> Iterator[Path]:
    if program.library is not None:
        for library in (program.library, Path(os.path.realpath(program.library))):
            for ancestor in list(library.absolute().parents)[1:_ANCESTORS_MAX]:
                if ancestor != Path("/"):
                    yield ancestor / "bin"
    if program.interpreter is not None:
        yield program.interpreter.parent
    yield places.python_bin
    for entry in places.environ.get("PATH", os.defpath).split(os.pathsep):
        yield Path(entry or ".").absolute()
