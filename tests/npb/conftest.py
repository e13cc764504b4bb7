"""Runs of the NAS benchmarks under each MPI, with a cache of kernels of their own."""

from __future__ import annotations

import pytest

from tests.wrapper.sites import find_site

#: Far more than any of these runs takes where nothing else does.
TIMEOUT_S = 300.0


@pytest.fixture(scope="session", params=["mpich", "openmpi"])
def site(request):
    """Each MPI in turn."""
    found = find_site(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(site, cache):
    """``run(ranks, *arguments)``: Python on some ranks."""

    def run_python(ranks, *arguments):
        environ = {"XDG_CACHE_HOME": str(cache)}
        return site.run(ranks, *arguments, environ=environ, timeout_s=TIMEOUT_S)

    return run_python


@pytest.fixture
def npb(run):
    """``npb(ranks, *arguments)``: ``python -m benchmarks.npb``."""
    return lambda ranks, *arguments: run(ranks, "-m", "benchmarks.npb", *arguments)
