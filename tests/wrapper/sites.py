"""Finds the MPIs to test with, and runs a few ranks of Python under each."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.places import ROOT

TIMEOUT_S = 240.0
OPENMPI_OPTIONS = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")


# Ranks that spin in collectives yield the CPU to other ranks.
FRIENDLY = {"OMPI_MCA_mpi_yield_when_idle": "1"}


@dataclass(frozen=True)
class Site:
    """A Python with mpi4py, and the mpiexec of the MPI library that it loads."""

    family: str
    python: Path
    mpiexec: Path

    def run(
        self,
        ranks: int,
        *arguments: str,
        environ: Mapping[str, str],
        timeout_s: float = TIMEOUT_S,
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``python arguments`` on some ranks. Leaves no process behind."""
        options = OPENMPI_OPTIONS if self.family == "openmpi" else ()
        kept = {k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")}
        process = subprocess.Popen(
            [*(self.mpiexec, *options, "-n", str(ranks)), self.python, *arguments],
            cwd=ROOT,
            env={**kept, **FRIENDLY, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            out, err = process.communicate()
            err += f"\n(ended after {timeout_s:g} s)"
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def _end(process: subprocess.Popen[str]) -> None:
    """Ends an mpiexec and the processes that it started."""
    family = [
        psutil.Process(process.pid),
        *psutil.Process(process.pid).children(recursive=True),
    ]
    process.terminate()
    _, alive = psutil.wait_procs(family, timeout=10)
    for each in alive:
        each.kill()


@functools.cache
def find_site(family: str) -> Site | str:
    """Returns the site of this family (mpich, openmpi), or why there is none."""
    bins = [Path(sys.executable).parent, *(v / "bin" for v in sorted(ROOT.glob(".venv*")))]
    for folder in dict.fromkeys(bins):
        python, mpiexec = folder / "python", folder / "mpiexec"
        if not (python.exists() and mpiexec.exists()):
            continue
        version = subprocess.run(
            [mpiexec, "--version"], capture_output=True, text=True, check=False, timeout=120
        ).stdout
        found = "mpich" if "HYDRA" in version or "MPICH" in version else "openmpi"
        imports = [python, "-c", "import mpi4py, pytest, pytest_mpi, cosched.shm._native"]
        if (
            found == family
            and not subprocess.run(
                imports, capture_output=True, check=False, timeout=120
            ).returncode
        ):
            return Site(family, python, mpiexec)
    looked = ", ".join(str(folder) for folder in bins)
    return f"no {family} with mpi4py, pytest-mpi and cosched in {looked}"
