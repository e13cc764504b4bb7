"""Finds each installed Open MPI whose libpmix can serve its tasks."""

from __future__ import annotations

import os
import subprocess

import pytest

from cosched.cluster.pmi.pmix_installation import find_installation
from cosched.launch.family import Family
from tests.places import ROOT
from tests.pmi.domain import Domain
from tests.run.conftest import INSTALLED

FOUND = {
    name: (mpi, found)
    for name, mpi in INSTALLED.items()
    if mpi.family is Family.OPENMPI
    and (found := find_installation(mpi.mpiexec, os.environ)) is not None
}


@pytest.fixture(
    scope="session",
    params=sorted(FOUND)
    or [pytest.param(None, marks=pytest.mark.skip("no Open MPI with PMIx is installed"))],
)
def openmpi(request):
    """Yields each Open MPI and what was found of it."""
    return FOUND[request.param]


@pytest.fixture(scope="session")
def task(openmpi, tmp_path_factory):
    """Builds the test program."""
    mpi, _ = openmpi
    program = tmp_path_factory.mktemp("pmi") / "task"
    subprocess.run([mpi.mpicc, ROOT / "tests/pmi/task.c", "-o", program], check=True)
    return str(program)


@pytest.fixture
def domain(openmpi, tmp_path):
    """Runs jobs on nodes that are processes of this machine."""
    _, found = openmpi
    return Domain(found.libpmix, tmp_path, found.variables)
