"""How the tests here compile the programs in C and run them as jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_S = 120
#: Open MPI starts more ranks than there are CPUs only if it is told to.
CROWDED = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
#: Preloads $SHIM into a rank, and into nothing that starts it; puts even ranks on node a
#: and odd ones on node b, and has the shim believe it.
ON_NODE = """
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}
if [ $((rank % 2)) = 1 ]; then export COSCHED_NODE=b; fi
export MPI_LOCALNRANKS=1 OMPI_COMM_WORLD_LOCAL_SIZE=1
LD_PRELOAD=$SHIM exec "$0" "$@"
"""


def compile_program(mpi, name, folder, *flags):
    """``programs/NAME.c``, built by the compiler wrapper of ``mpi``: its path."""
    program = folder / name
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        [mpi.mpicc, "-O1", *flags, PROGRAMS / f"{name}.c", "-o", program, "-lpthread"],
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )
    return str(program)


def compile_library(mpi, name, library, *flags):
    """``programs/NAME.c`` as a shared library: the options that link a program with it."""
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    words = [mpi.mpicc, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    subprocess.run(
        [*words, PROGRAMS / f"{name}.c", "-o", library],
        check=True,
        capture_output=True,
        env={**os.environ, "PATH": path},
    )
    return ("-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}")


def cosched_run(mpi, *words):
    """The command line of cosched-run with ``mpi``."""
    return [
        *(sys.executable, "-m", "cosched.cli.run.main", "--mpi", str(mpi.mpiexec)),
        *words,
    ]


def launch_on_nodes(mpi, ranks, program, *words):
    """The command line of some ranks with $SHIM, on nodes a and b by turns."""
    return mpi.launch("-n", str(ranks), "sh", "-c", ON_NODE, program, *words)


def run_job(argv, environ, patience_s=PATIENCE_S):
    """A finished run, its output captured."""
    return subprocess.run(
        argv,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=patience_s,
        check=False,
    )


def outcome(argv, environ):
    """The sorted lines that a run printed; it must have succeeded."""
    run = run_job(argv, environ)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert "FAIL" not in run.stderr
    return sorted(run.stdout.splitlines())
