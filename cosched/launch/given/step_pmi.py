"""Checks whether srun serves the process manager's interface that a program's MPI speaks.

Otherwise each rank may run alone, and the program computes the same several times without
an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from cosched.launch.given.line import Line
from cosched.launch.program import Program, which
from cosched.launch.spoken_pmi import better_kind, spoken_by
from cosched.linux.processes.tools import ask_tool

WITHIN_S = 5.0
_OPTION = frozenset(("mpi",))
_VARIABLE = "SLURM_MPI_TYPE"
_DEFAULT = r"(?m)^MpiDefault\s*=\s*(\S+)"


def unserved(line: Line, program: Program) -> str:
    """Returns one line if srun does not serve the program's MPI; "" if it does, or if that
    does not show here."""
    if program.family is None:
        return ""
    spoken = spoken_by(program.family, program.library)
    for given, kind in _kinds(line):
        if spoken.is_served(kind) is False:
            return (
                f"{given} does not serve {program.family.title} of {program.argv[0]}: each "
                "rank runs alone as rank 0 of 1, or MPI_Init fails; use "
                f"--mpi={better_kind(program.family)}"
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
