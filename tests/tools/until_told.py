"""Builds an MPI program that runs until a file is there (``until_told.c``)."""

import os
import subprocess

from tests.places import ROOT


def build_until_told(mpicc, folder):
    """Returns the path of the program. mpicc: the path of the compiler of its MPI."""
    program = folder / "until_told"
    source = ROOT / "tests/tools/until_told.c"
    # A wrapper of MPICH looks for programs beside itself.
    path = f"{mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    words = [mpicc, "-O1", "-Wall", "-Werror", source, "-o", program]
    subprocess.run(words, check=True, env={**os.environ, "PATH": path})
    return str(program)
