"""Recognises the families of MPI and the launchers that start their tasks."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

from cosched.core.decoding import is_whole, parse_integer
from cosched.core.named_tuples import NamedTuple


class Family(Enum):
    """The ABI that a program follows. Intel MPI shares MPICH's."""

    MPICH = "mpich"
    OPENMPI = "openmpi"

    @property
    def title(self) -> str:
        return "MPICH" if self is Family.MPICH else "Open MPI"


class LauncherKind(Enum):
    """The kind of launcher, by its command line."""

    HYDRA = "hydra"
    ORTE = "orte"
    PRRTE = "prrte"
    INHERIT = "inherit"
    """Any launcher whose tasks see the launcher's own environment, such as srun."""


class Version(NamedTuple):
    """The contents of ``mpiexec --version``."""

    family: Family | None  #: the MPI of the launcher; None: the output names no known MPI
    engine: LauncherKind  #: the launcher's kind
    number: str  #: the version as printed, such as ``4.1.6``; empty: unknown
    intel: bool = False  #: whether it is Intel MPI, of MPICH's family


class Mpi(NamedTuple):
    """One installation: its launcher and the compiler wrapper of the same build."""

    family: Family  #: the family of the libraries that its programs load
    engine: LauncherKind  #: the launcher's kind
    version: str  #: the launcher's version, such as ``4.1.6``
    mpiexec: Path  #: the launcher
    mpicc: Path | None  #: the compiler wrapper; None: there is none beside the launcher
    intel: bool = False  #: whether it is Intel MPI, of MPICH's family

    @property
    def title(self) -> str:
        """The name that users know."""
        return "Intel MPI" if self.intel else self.family.title

    @property
    def major(self) -> int | None:
        """The first number of the version; None if it has none."""
        first = self.version.partition(".")[0]
        return parse_integer(first, "version", 0, 1 << 31) if is_whole(first) else None


STANDARD_ABI = "libmpi_abi.so."
_LIBRARY = r"(?a)libmpi(?!_abi)\w*\.so\.(\d{1,9})"
_MPICH_MAJOR = 12
_OPENMPI_MAJORS = range(20, 80)

_HYDRA = r"(?s)HYDRA build details:.*?Version:\s*(\S+)"
_INTEL = r"(?s)Intel\(R\) MPI Library.*?Version\s+(\S+)"
_OPEN_MPI = r"(?a)\((?:Open MPI|OpenRTE|PRRTE)\)\s+(\d{1,9})(\S*)"


def family_of_library(name: str) -> Family | None:
    """Returns the family of a library's file name (its soname), if any.

    MPICH, Debian's libmpich and Intel MPI share major version 12 by agreement. Open MPI has
    40 since version 3. The standard ABI (libmpi_abi) fits either.
    """
    match = re.match(_LIBRARY, name)
    if match is None:
        return None
    major = parse_integer(match[1], name, 0, 10**9)
    if major == _MPICH_MAJOR:
        return Family.MPICH
    return Family.OPENMPI if major in _OPENMPI_MAJORS else None


def is_mpi_library(name: str) -> bool:
    return family_of_library(name) is not None or name.startswith(STANDARD_ABI)


def read_version(text: str) -> Version:
    """Recognises the launcher that printed ``text`` when asked for its version."""
    if match := re.search(_HYDRA, text):
        return Version(Family.MPICH, LauncherKind.HYDRA, match[1])
    if match := re.search(_INTEL, text):
        return Version(Family.MPICH, LauncherKind.HYDRA, match[1].rstrip(","), intel=True)
    if match := re.search(_OPEN_MPI, text):
        old = is_whole(match[1], most=4) and "(PRRTE)" not in match[0]
        engine = LauncherKind.ORTE if old else LauncherKind.PRRTE
        return Version(Family.OPENMPI, engine, match[1] + match[2])
    return Version(None, LauncherKind.INHERIT, "")
