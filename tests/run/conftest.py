"""Finds each installed MPI and builds the test program for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from cosched.core.node.settings import Settings
from cosched.launch.family import Family, LauncherKind
from cosched.launch.intel import wrapper_environment
from cosched.launch.mpi import find_mpicc, launcher_version
from cosched.launch.program import Program
from cosched.node.lifetime.start import NodeOptions, start_node
from cosched.node.lifetime.stop import stop_node
from cosched.node.sockets.client import request
from cosched.rundir.paths import NodePaths
from tests.fakes import eventually
from tests.places import ROOT
from tests.tools.commands import run_command

SOURCE = Path(__file__).parent / "task.c"


@dataclass(frozen=True)
class Installed:
    mpiexec: Path
    mpicc: Path
    family: Family
    engine: LauncherKind
    version: str
    intel: bool = False

    def launch(self, *words):
        """Returns the command line of this MPI's own launcher."""
        root = self.family is Family.OPENMPI and os.geteuid() == 0
        return [str(self.mpiexec), *(["--allow-run-as-root"] if root else []), *words]


def installed() -> dict[str, Installed]:
    """Returns the MPIs beside Python, in the repository's other environments, and of the
    system, by name."""
    places = [Path(sys.executable).parent / "mpiexec", *ROOT.glob(".venv*/bin/mpiexec")]
    for name in ("mpiexec.mpich", "mpiexec.openmpi", "mpiexec"):
        found = shutil.which(name)
        places += [Path(found)] if found else []
    mpis: dict[str, Installed] = {}
    for place in places:
        version = launcher_version(place, os.environ) if place.exists() else None
        if version is None or version.family is None:
            continue
        mpicc = find_mpicc(Program((), None, ""), place, version.family)
        kin = "impi" if version.intel else version.family.value
        name = f"{kin}-{version.number}"
        if mpicc is not None and name not in mpis and compiles(mpicc):
            mpis[name] = Installed(
                place,
                mpicc,
                version.family,
                version.engine,
                version.number,
                version.intel,
            )
    return mpis


def compiles(mpicc: Path) -> bool:
    """Whether the compiler finds its MPI's header, which may be in another package."""
    path = f"{mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [mpicc, "-E", "-x", "c", "-"],
        input=b"#include <mpi.h>",
        capture_output=True,
        check=False,
        env={**os.environ, **wrapper_environment(mpicc, os.environ), "PATH": path},
    )
    return done.returncode == 0


INSTALLED = installed()


@contextlib.contextmanager
def wrapper_works(mpi):
    """Sets variables for ``mpi``'s compiler wrappers, and the path of its libraries,
    which Intel's mpif90 leaves out."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in wrapper_environment(mpi.mpicc, os.environ).items():
            patch.setenv(name, value)
            patch.setenv("LD_LIBRARY_PATH", str(Path(value, "lib")))
        yield mpi


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.mpi_job) for name in sorted(INSTALLED)],
)
def mpi(request):
    with wrapper_works(INSTALLED[request.param]) as found:
        yield found


@pytest.fixture(scope="session")
def any_mpi():
    """Skips the test if no MPI is installed."""
    if not INSTALLED:
        pytest.skip("no MPI is installed")


@pytest.fixture(scope="session")
def task(mpi, tmp_path_factory):
    """Builds the test program with ``mpi``'s compiler."""
    program = tmp_path_factory.mktemp("task") / "task"
    path = f"{mpi.mpicc.parent}{os.pathsep}{os.environ['PATH']}"
    built = subprocess.run(
        [mpi.mpicc, SOURCE, "-o", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path},
    )
    if built.returncode != 0:
        pytest.skip(f"{mpi.mpicc} builds nothing here: {built.stderr.splitlines()[-1]}")
    return str(program)


@pytest.fixture(autouse=True)
def own_surroundings(monkeypatch):
    """Hides the user's daemons and preloads from the tests."""
    for name in ("COSCHED_RUN_DIR", "COSCHED_NODE", "LD_PRELOAD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def shared_node():
    """Yields the paths of a node with daemons. A start of private daemons takes half a
    second of CPU, so tests that are not about daemons share these."""
    # Short, since socket paths have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="cosched-") as folder:
        node = NodePaths(Path(folder), os.uname().nodename)
        start_node(node, NodeOptions(Settings()))
        yield node
        stop_node(node)
        assert not list(Path("/dev/shm").glob(f"cosched-{node.tag}-*"))
        assert not list(node.bells.glob("*"))


@pytest.fixture
def served(shared_node):
    """Yields the paths of the shared node. It has no job before and after the test."""
    assert request(shared_node, "status")["jobs"] == []
    yield shared_node
    assert eventually(lambda: request(shared_node, "status")["jobs"] == [])


@pytest.fixture
def jobs_dir(tmp_path):
    """The run directory of ``cosched_run``: a new one, in which private daemons start."""
    return tmp_path / "run"


@pytest.fixture
def here(jobs_dir):
    """The paths of this node in the run directory of ``cosched_run``."""
    return NodePaths(jobs_dir, os.uname().nodename)


@pytest.fixture
def cosched_run(jobs_dir):
    """Runs cosched-run without input."""

    def run(*words):
        return run_command("--run-dir", jobs_dir, *words, module="cosched.cli.run.main")

    return run


@pytest.fixture
def start_cosched_run(jobs_dir):
    """Starts cosched-run; kills it at the end of the test if it still runs."""
    started = []

    def start(*words, **options):
        process = subprocess.Popen(
            command(jobs_dir, *words), stdout=subprocess.PIPE, text=True, **options
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def command(run_dir, *words):
    script = "from cosched.cli.run.main import main; main()"
    return [sys.executable, "-c", script, "--run-dir", str(run_dir), *words]
