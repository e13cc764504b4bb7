"""Finds which process manager's interfaces of Slurm an installed MPI speaks.

With another interface each rank runs alone as rank 0 of 1, without an error, or MPI_Init
fails.
"""

from __future__ import annotations

from pathlib import Path

from cosched.core.named_tuples import NamedTuple
from cosched.launch.elf import read_elf
from cosched.launch.family import Family

_OPEN_MPI_4 = "libopen-rte.so"
#: The first Open MPI that speaks PMIx alone.
_OPENMPI_WITHOUT_PMI = 5
_PMIX_CALL = b"PMIx_Init"


class SpokenPmi(NamedTuple):
    """The interfaces that an MPI speaks. None: that does not show."""

    pmi2: bool | None  #: it speaks PMI2
    pmix: bool | None  #: it speaks PMIx

    def is_served(self, kind: str) -> bool | None:
        """Whether ``srun --mpi=KIND`` starts its ranks as one job."""
        if kind in ("none", "openmpi"):
            return False
        if kind.startswith("pmix"):
            return self.pmix
        return self.pmi2 if kind == "pmi2" else None


def spoken_by(family: Family, library: Path | None, major: int | None = None) -> SpokenPmi:
    """Returns the interfaces of an MPI. library: its file; None: not found. major: the
    first number of its version, for want of a library; None: unknown."""
    elf = None if library is None else read_elf(library)
    if family is Family.MPICH:
        found = None if library is None or elf is None else library.read_bytes()
        return SpokenPmi(pmi2=True, pmix=None if found is None else _PMIX_CALL in found)
    if library is not None and elf is not None:
        is_old = any(name.startswith(_OPEN_MPI_4) for name in elf.needed)
        return SpokenPmi(pmi2=_has_pmi_plugin(library) if is_old else False, pmix=True)
    without = major is not None and major >= _OPENMPI_WITHOUT_PMI
    return SpokenPmi(pmi2=False if without else None, pmix=True)


def better_kind(family: Family | None) -> str:
    """Returns the interface that serves each build of an MPI, as srun names it. None: the
    family is unknown."""
    return "pmix" if family is Family.OPENMPI else "pmi2"


def _has_pmi_plugin(library: Path) -> bool | None:
    """Whether an Open MPI 4 was built with Slurm's PMI; None if it has no plugins."""
    folders = {library.parent, library.resolve().parent}
    plugins = [
        plugin.name
        for folder in folders
        for pattern in ("openmpi*/mca_pmix_*", "openmpi*/lib/openmpi*/mca_pmix_*")
        for plugin in folder.glob(pattern)
    ]
    if not plugins:
        return None
    return any(name.startswith(("mca_pmix_s1", "mca_pmix_s2")) for name in plugins)
