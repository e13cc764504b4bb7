"""Checks whether srun serves the process manager's interface that a program's MPI speaks.

Otherwise each rank becomes a job of one rank, and the program computes the same several
times without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosched.launch.elf import read_elf
from cosched.launch.family import Family, is_served
from cosched.launch.given.line import Line
from cosched.launch.program import Program, which
from cosched.linux.processes.tools import ask_tool

WITHIN_S = 5.0
_OPTION = frozenset(("mpi",))
_VARIABLE = "SLURM_MPI_TYPE"
_DEFAULT = r"(?m)^MpiDefault\s*=\s*(\S+)"
_OPEN_MPI_4 = "libopen-rte.so"
_PMIX_CALL = b"PMIx_Init"


def unserved(line: Line, program: Program) -> str:
    """Returns one line if srun does not serve the program's MPI; "" if it does, or if that
    does not show here."""
    if program.family is None:
        return ""
    for given, kind in _kinds(line):
        if _is_served(program, kind) is False:
            better = "pmix" if program.family is Family.OPENMPI else "pmi2"
            return (
                f"{line.argv[0]} makes each rank a job of one rank: {given} does not serve "
                f"{program.family.title} of {program.argv[0]}; use --mpi={better}"
            )
    return ""


def _kinds(line: Line) -> Iterator[tuple[str, str]]:
    """Yields what chooses the interface of the app contexts, and its name."""
    chosen = [option.values[0] for option in line.named(_OPTION) if option.values]
    yield from ((f"--mpi={kind}", kind) for kind in chosen)
    if len(chosen) >= len(line.contexts):
        return
    if line.environ.get(_VARIABLE):
        yield f"{_VARIABLE}={line.environ[_VARIABLE]}", line.environ[_VARIABLE]
    elif default := _configured(line.environ):
        yield f"MpiDefault={default}", default


def _configured(environ: Mapping[str, str]) -> str:
    """Returns Slurm's MpiDefault; "" if Slurm does not answer in time."""
    scontrol = which("scontrol", environ)
    if scontrol is None:
        return ""
    # Without an answer srun itself reports the error.
    answer = ask_tool((str(scontrol), "show", "config"), WITHIN_S, environ)
    found = re.search(_DEFAULT, answer.output)
    return found[1] if found else ""


def _is_served(program: Program, kind: str) -> bool | None:
    """Whether the program's MPI speaks this interface; None if that does not show."""
    assert program.family is not None
    library = program.library
    elf = None if library is None else read_elf(library)
    if library is None or elf is None:
        return is_served(program.family, None, kind)
    if program.family is Family.MPICH:
        known = is_served(program.family, None, kind)
        return _PMIX_CALL in library.read_bytes() if known is None else known
    is_old = any(name.startswith(_OPEN_MPI_4) for name in elf.needed)
    known = is_served(program.family, 4 if is_old else 5, kind)
    return _has_pmi_plugin(library) if known is None else known


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
