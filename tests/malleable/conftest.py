"""The MPIs under which malleable programs are tested."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.tools.malleable_agents import PlayedAgents, run_without_agents


def folders():
    """The folders of environments with an mpiexec and this cosched."""
    here = Path(sys.executable).parent
    found = dict.fromkeys((here, *sorted(ROOT.glob(".venv*/bin"))))
    return [
        bin for bin in found if (bin / "mpiexec").exists() and (bin / "cosched").exists()
    ]


@pytest.fixture(
    params=[pytest.param(bin, id=bin.parent.name.lstrip(".")) for bin in folders()]
)
def mpi(request):
    return request.param


@pytest.fixture
def any_mpi():
    """Returns the first of them, for what the program does before it calls MPI."""
    found = folders()
    if not found:
        pytest.skip("no environment has an MPI")
    return found[0]


def flags_for(mpicc, *options):
    """Returns the words that ``cosched malleable`` prints."""
    command = [sys.executable, "-m", "cosched.cli.main", "malleable", "--mpicc", mpicc]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return shlex.split(done.stdout)


@pytest.fixture
def agents(tmp_path):
    """Returns a function that makes the agents of some nodes."""
    made = []

    def make(nodes, seed=0):
        made.append(PlayedAgents(tmp_path, nodes, seed))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def rigid(mpi):
    """Returns a function that runs a program without agents."""

    def run(ranks, program, *arguments):
        command = [mpi / "python", program] if program.suffix == ".py" else [program]
        return run_without_agents(mpi, ranks, *command, *arguments)

    return run
