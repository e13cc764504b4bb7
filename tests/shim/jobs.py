"""Compiles the tests' C programs and runs them as jobs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.tools.commands import run_command

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_S = 120
#: Open MPI starts more ranks than CPUs only with these.
CROWDED = {
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
#: Preloads $SHIM into a rank, but not into its launchers. Even ranks are on node a, odd
#: ranks on node b, also for the launcher's variables that the shim reads.
ON_NODE = """
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}
if [ $((rank % 2)) = 1 ]; then export COSCHED_NODE=b; fi
export MPI_LOCALNRANKS=1 OMPI_COMM_WORLD_LOCAL_SIZE=1
LD_PRELOAD=$SHIM exec "$0" "$@"
"""


def compile_program(mpi, name, folder, *flags):
    """Builds ``programs/NAME.c`` with the compiler wrapper of ``mpi``; returns its path."""
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
    """Builds ``programs/NAME.c`` as a library; returns the options to link with it."""
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
    """Returns the command line of cosched-run with ``mpi``."""
    return [
        *(sys.executable, "-m", "cosched.cli.run.main", "--mpi", str(mpi.mpiexec)),
        *words,
    ]


def run_ours(mpi, environ, *words):
    """Runs cosched-run with ``mpi`` in a fork; returns the result with its output."""
    return run_command(
        *("--mpi", mpi.mpiexec, *words),
        module="cosched.cli.run.main",
        env={**os.environ, **environ},
    )


def launch_on_nodes(mpi, ranks, program, *words):
    """Returns the command line of ranks with $SHIM, alternately on nodes a and b."""
    return mpi.launch("-n", str(ranks), "sh", "-c", ON_NODE, program, *words)


def run_job(argv, environ, patience_s=PATIENCE_S):
    """Runs a command to its end and returns the result with its output."""
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
    """Returns the sorted lines that a run printed; the run must succeed."""
    return printed(run_job(argv, environ))


def printed(run):
    """Returns the sorted lines of a run that ended; it must have succeeded."""
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-2000:]
    assert "FAIL" not in run.stderr
    return sorted(run.stdout.splitlines())
