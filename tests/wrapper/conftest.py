"""Fixtures for the tests of the mpi4py wrapper."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.wrapper.sites import find_site


@pytest.fixture(params=["mpich", "openmpi"])
def site(request):
    """Returns the site of each MPI."""
    found = find_site(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def any_site():
    """Returns the site of any MPI, for tests that do not depend on it."""
    sites = [find_site(family) for family in ("mpich", "openmpi")]
    found = [site for site in sites if not isinstance(site, str)]
    if not found:
        pytest.skip(" and ".join(site for site in sites if isinstance(site, str)))
    return found[0]


@pytest.fixture
def run_dir():
    """Makes a run directory whose name is short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="cosched-") as directory:
        yield Path(directory)


@pytest.fixture
def job_environ(run_dir):
    """Returns the environment of a job with status bytes."""
    return {
        "COSCHED_JOB": "wrapped",
        "COSCHED_RUN_DIR": str(run_dir),
        "COSCHED_NODE": "a",
        "COSCHED_STATUS": "prefix",
    }
